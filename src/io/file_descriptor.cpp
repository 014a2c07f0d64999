#include "io/file_descriptor.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

namespace nibble::io {
namespace {

constexpr std::size_t kShownPathBytes = 240;

std::string_view kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

void require_regular(const struct stat& status, const std::filesystem::path& path) {
  core::require(S_ISREG(status.st_mode), core::ErrorKind::kIo,
                "cannot open '{}': it is {}, not a file", shown(path), kind_of(status.st_mode));
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void FileDescriptor::reset() {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

core::Printable shown(const std::filesystem::path& path) {
  return core::printable(path.native(), kShownPathBytes);
}

void fail_with_errno(std::string_view action, const std::filesystem::path& path, int error_number) {
  const auto kind = error_number == ENOMEM ? core::ErrorKind::kOutOfMemory : core::ErrorKind::kIo;
  core::fail(kind, "cannot {} '{}': {}", action, shown(path),
             std::generic_category().message(error_number));
}

OpenFile open_regular_file(const std::filesystem::path& path) {
  core::require(path.native().find('\0') == std::string::npos, core::ErrorKind::kIo,
                "cannot open '{}': the name holds a zero byte", shown(path));
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    fail_with_errno("open", path, errno);
  }
  require_regular(status, path);  // before open(): opening a device may already do something
  // O_NONBLOCK: a pipe that takes the file's place right now must not block us.
  OpenFile file;
  file.descriptor = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.descriptor.is_open()) {
    fail_with_errno("open", path, errno);
  }
  if (::fstat(file.descriptor.get(), &status) != 0) {
    fail_with_errno("open", path, errno);
  }
  require_regular(status, path);
  file.size = static_cast<std::int64_t>(status.st_size);
  return file;
}

namespace {

FileState to_state(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          std::int64_t{status.st_size}, std::int64_t{status.st_mtim.tv_sec},
          std::int64_t{status.st_mtim.tv_nsec}};
}

}  // namespace

FileState state_of(const FileDescriptor& descriptor, const std::filesystem::path& path) {
  struct stat status = {};
  if (::fstat(descriptor.get(), &status) != 0) {
    fail_with_errno("read", path, errno);
  }
  return to_state(status);
}

FileState state_of(const std::filesystem::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    fail_with_errno("read", path, errno);
  }
  return to_state(status);
}

}  // namespace nibble::io
