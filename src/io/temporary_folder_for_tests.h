#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/temporary_folder_for_tests.h"

namespace nibble::io {

using core::TemporaryFolder;

/// The bytes of all files in a folder and the folders in it, by relative path.
inline std::map<std::string, std::string> folder_contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    files[std::filesystem::relative(entry.path(), folder)] = bytes.str();
  }
  return files;
}

/// The bytes in heap memory of exactly their size, so that the address sanitizer sees every read
/// outside of them.
struct HeapBytes {
  std::shared_ptr<std::byte[]> memory;
  std::span<const std::byte> span;

  explicit HeapBytes(std::string_view bytes)
      : memory(new std::byte[bytes.size()]), span(memory.get(), bytes.size()) {
    std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), memory.get());
  }
};

/// Runs `action` and expects an Error of that kind, on one line, whose message holds all `parts`.
template <typename Action>
void expect_error(core::ErrorKind kind, const std::vector<std::string>& parts, Action action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one with '" << (parts.empty() ? "" : parts.front()) << "'";
  } catch (const core::Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.kind(), kind) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
    }
  }
}

}  // namespace nibble::io
