#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "core/json.h"

// Where the tests of this folder find their data.
namespace nibble::text::testing {

inline std::filesystem::path golden(std::string_view name) {
  return std::filesystem::path(NIBBLE_SOURCE_DIR) / "src/text/goldens" / name;
}

/// Test material that is not part of the repository; may be missing.
inline std::filesystem::path shared(std::string_view name) {
  return std::filesystem::path(NIBBLE_SOURCE_DIR) / "../shared" / name;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline core::Json read_json(const std::filesystem::path& path) {
  return core::parse_json(read_file(path), path.filename().string());
}

/// 64-bit FNV-1a, as 16 hexadecimal digits.
inline std::string fnv1a(std::string_view bytes) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return fmt::format("{:016x}", value);
}

inline std::string fnv1a(std::span<const std::int32_t> ids) {
  std::string bytes;
  for (const std::int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>(static_cast<std::uint32_t>(id) >> shift & 0xff));
    }
  }
  return fnv1a(std::string_view(bytes));
}

}  // namespace nibble::text::testing
