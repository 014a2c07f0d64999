#include "io/atomic_file.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "io/durable.h"

namespace nibble::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".partial";
constexpr std::size_t kMaxNameBytes = 200;  // of the target's name; the system allows 255 in all
constexpr std::size_t kWriteBytes = 64u << 20;  // one write() call

std::string temporary_prefix(const fs::path& target) {
  return fmt::format(".{}.", target.filename().native().substr(0, kMaxNameBytes));
}

// "<prefix><digits and dashes>.partial": the names that this class gives.
bool is_temporary(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kSuffix) ||
      name.size() <= prefix.size() + kSuffix.size()) {
    return false;
  }
  name = name.substr(prefix.size(), name.size() - prefix.size() - kSuffix.size());
  return name.find_first_not_of("0123456789-") == std::string_view::npos;
}

// A living writer holds the lock of its temporary; a killed one left it free.
void remove_stale_temporaries(const fs::path& folder, const std::string& prefix) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (!is_temporary(path.filename().native(), prefix)) {
      continue;
    }
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      ::unlink(path.c_str());
    }
  }
}

// False when another process took the file for a stale one before it was locked.
bool lock_and_confirm(int fd, const fs::path& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return false;
  }  // any other failure: a file system without locks, where nobody removes anything
  struct stat by_name = {};
  struct stat by_descriptor = {};
  return ::stat(path.c_str(), &by_name) == 0 && ::fstat(fd, &by_descriptor) == 0 &&
         by_name.st_ino == by_descriptor.st_ino && by_name.st_dev == by_descriptor.st_dev;
}

}  // namespace

AtomicFile::AtomicFile(fs::path target) : target_(std::move(target)) {
  static std::atomic<std::uint64_t> counter{0};
  core::require(!target_.filename().empty() && target_.native().find('\0') == std::string::npos,
                core::ErrorKind::kIo, "cannot write '{}': it is not the name of a file",
                shown(target_));
  const std::string prefix = temporary_prefix(target_);
  const fs::path folder = folder_of(target_);
  remove_stale_temporaries(folder, prefix);
  while (true) {
    temporary_ = folder / fmt::format("{}{}-{}{}", prefix, ::getpid(), counter++, kSuffix);
    descriptor_ =
        FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!descriptor_.is_open() && errno != EEXIST) {
      fail_with_errno("write", target_, errno);
    }
    if (descriptor_.is_open() && lock_and_confirm(descriptor_.get(), temporary_)) {
      return;
    }
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_.is_open()) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  assert(descriptor_.is_open());
  while (!bytes.empty()) {
    const ssize_t count =
        ::write(descriptor_.get(), bytes.data(), std::min(bytes.size(), kWriteBytes));
    if (count < 0 && errno != EINTR) {
      fail_with_errno("write", target_, errno);
    }
    const std::size_t done = count < 0 ? 0 : static_cast<std::size_t>(count);
    written_ += static_cast<std::int64_t>(done);
    bytes = bytes.subspan(done);
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  assert(descriptor_.is_open());
  if (::fsync(descriptor_.get()) != 0) {
    fail_with_errno("write", target_, errno);
  }
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail_with_errno("write", target_, errno);
  }
  descriptor_.reset();
  sync_folder(folder_of(target_));
}

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace nibble::io
