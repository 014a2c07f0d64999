#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/printable.h"

namespace nibble::io {

/// Owns an open file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

/// A path as it stands in messages: on one line, without control characters. A view of it.
core::Printable shown(const std::filesystem::path& path);

/// Throws kIo (kOutOfMemory for ENOMEM): "cannot <action> '<path>': <reason of errno>".
[[noreturn]] void fail_with_errno(std::string_view action, const std::filesystem::path& path,
                                  int error_number);

/// Which file it is, and in which state.
struct FileState {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;              // bytes
  std::int64_t modified_seconds = 0;  // since the epoch
  std::int64_t modified_nanoseconds = 0;
  friend bool operator==(const FileState&, const FileState&) = default;
};

/// Throws kIo naming the path.
FileState state_of(const FileDescriptor& descriptor, const std::filesystem::path& path);
/// Of the file that has this name now.
FileState state_of(const std::filesystem::path& path);

struct OpenFile {
  FileDescriptor descriptor;
  std::int64_t size = 0;  // bytes, at the time of opening
};

/// Opens a regular file for reading. Folders, pipes, sockets and devices are refused (kIo) without
/// blocking and without touching them.
OpenFile open_regular_file(const std::filesystem::path& path);

}  // namespace nibble::io
