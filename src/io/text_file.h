#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace nibble::io {

/// The whole file as bytes. Throws kIo when it cannot be read, is not a regular file, or holds more
/// than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

/// The same of what the user of a program names: also pipes, sockets and terminals, which are read
/// to their end, and kStandardInput. For files that belong to a model there is read_text_file(),
/// which never waits for a writer.
std::string read_named_text(const std::filesystem::path& path, std::int64_t max_bytes);

inline constexpr const char* kStandardInput = "-";

/// "'notes.txt'", or "standard input": what read_named_text() reads, as it stands in messages.
std::string shown_text(const std::filesystem::path& path);

}  // namespace nibble::io
