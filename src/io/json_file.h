#pragma once

#include <cstdint>
#include <filesystem>

#include "core/json_type.h"

namespace nibble::io {

/// Large enough for the tokenizer.json of any known model (the largest are near 35 MB).
inline constexpr std::int64_t kMaxJsonFileBytes = 128LL << 20;

/// Reads and parses a JSON file. Throws kIo when it cannot be read or is larger than `max_bytes`,
/// kInvalidModel (naming the file) when it is not one valid JSON document.
core::Json load_json_file(const std::filesystem::path& path,
                          std::int64_t max_bytes = kMaxJsonFileBytes);

}  // namespace nibble::io
