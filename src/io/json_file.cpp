#include "io/json_file.h"

#include "core/json.h"
#include "io/file_descriptor.h"
#include "io/text_file.h"

namespace nibble::io {

core::Json load_json_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  return core::parse_json(read_text_file(path, max_bytes), shown(path).str());
}

}  // namespace nibble::io
