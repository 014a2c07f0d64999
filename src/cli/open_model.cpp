#include "cli/open_model.h"

#include "cli/output.h"

namespace nibble::cli {

std::shared_ptr<models::Model> open_model(const std::filesystem::path& path) {
  auto model = models::open_model(path);
  for (const std::string& remark : model->compression.remarks) {
    print_note("note: {}: {}\n", core::printable(path.string()), core::printable(remark));
  }
  return model;
}

}  // namespace nibble::cli
