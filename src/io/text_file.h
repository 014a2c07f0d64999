#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace nibble::io {

/// The whole file as bytes. Throws kIo when it cannot be read, is not a regular file, or holds more
/// than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

}  // namespace nibble::io
