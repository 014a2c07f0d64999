#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/threads.h"

namespace nibble::io {

/// What tells a file from other versions of it, so that things made from it can be known as stale.
struct Fingerprint {
  std::string name;  // without its folder
  std::int64_t bytes = 0;
  std::int64_t modified = 0;  // nanoseconds since the epoch
  std::uint64_t sample = 0;   // of 256 pages of 4 KiB, evenly spread over the file
  std::uint64_t content = 0;  // of all bytes: hash64 of the hash64 of each MiB
};

/// Reads the whole file. Throws kIo.
Fingerprint fingerprint(const std::filesystem::path& path, core::ThreadPool& pool);

/// Whether the file is what it was. With the same name, size and time of modification its sample
/// decides, which is quick; with another time (a copy, a download) all of its content does. Throws
/// kIo.
bool has_fingerprint(const std::filesystem::path& path, const Fingerprint& expected,
                     core::ThreadPool& pool);

}  // namespace nibble::io
