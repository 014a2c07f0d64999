#include "io/atomic_file.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <optional>
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
constexpr int kMaxLinks = 40;                   // as the system
constexpr mode_t kPermissions = 0777;
constexpr mode_t kNewFile = 0666;

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

using Status = std::optional<struct stat>;

// What a name leads to; nullopt: nothing.
Status status_of(const fs::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0) {
    return status;
  }
  if (errno != ENOENT) {
    fail_with_errno("write", path, errno);
  }
  return std::nullopt;
}

// The name behind links; the last one may lead to nothing.
fs::path follow_links(fs::path path) {
  struct stat status = {};
  for (int links = 0; ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode); ++links) {
    std::error_code error;
    const fs::path next = fs::read_symlink(path, error);
    if (error || links == kMaxLinks) {
      fail_with_errno("write", path, error ? error.value() : ELOOP);
    }
    path = folder_of(path) / next;
  }
  return path;
}

// Pipes, terminals and the like are no place for another file: what they are stays. So does a file
// that its links don't name, as those of /proc for one that was removed.
bool is_replaceable(const Status& there, const fs::path& named) {
  if (!there) {
    return true;
  }
  const Status by_name = status_of(named);
  return S_ISREG(there->st_mode) && by_name && by_name->st_ino == there->st_ino &&
         by_name->st_dev == there->st_dev;
}

FileDescriptor open_in_place(const fs::path& target, const struct stat& status) {
  core::require(!S_ISBLK(status.st_mode), core::ErrorKind::kIo,
                "cannot write '{}': it is a device that holds files", shown(target));
  FileDescriptor file(::open(target.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY));
  if (!file.is_open()) {
    fail_with_errno("write", target, errno);
  }
  return file;
}

// A file that takes the place of another one has its mode and, where we may give it away, its
// owner.
void take_after(int fd, const struct stat& replaced, const fs::path& target) {
  struct stat mine = {};
  if (::fstat(fd, &mine) != 0) {
    fail_with_errno("write", target, errno);
  }
  if (mine.st_uid != replaced.st_uid || mine.st_gid != replaced.st_gid) {
    static_cast<void>(!::fchown(fd, replaced.st_uid, replaced.st_gid));
  }
  if ((mine.st_mode ^ replaced.st_mode) & kPermissions) {
    if (::fchmod(fd, replaced.st_mode & kPermissions) != 0) {
      fail_with_errno("write", target, errno);
    }
  }
}

}  // namespace

AtomicFile::AtomicFile(fs::path target) : target_(std::move(target)) {
  core::require(!target_.filename().empty() && target_.native().find('\0') == std::string::npos,
                core::ErrorKind::kIo, "cannot write '{}': it is not the name of a file",
                shown(target_));
  const Status there = status_of(target_);
  place_ = follow_links(target_);
  if (!is_replaceable(there, place_)) {
    descriptor_ = open_in_place(target_, *there);
    return;
  }
  open_temporary(there ? there->st_mode & kPermissions : kNewFile);
  if (there) {
    take_after(descriptor_.get(), *there, target_);
  }
}

// Never more open than what it replaces, not even for a moment.
void AtomicFile::open_temporary(mode_t mode) {
  static std::atomic<std::uint64_t> counter{0};
  const std::string prefix = temporary_prefix(place_);
  const fs::path folder = folder_of(place_);
  remove_stale_temporaries(folder, prefix);
  while (true) {
    temporary_ = folder / fmt::format("{}{}-{}{}", prefix, ::getpid(), counter++, kSuffix);
    descriptor_ =
        FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!descriptor_.is_open() && errno != EEXIST) {
      fail_with_errno("write", target_, errno);
    }
    if (descriptor_.is_open() && lock_and_confirm(descriptor_.get(), temporary_)) {
      return;
    }
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_.is_open() && !temporary_.empty()) {
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
  if (temporary_.empty()) {  // everything stands where it belongs
    return descriptor_.reset();
  }
  if (::fsync(descriptor_.get()) != 0) {
    fail_with_errno("write", target_, errno);
  }
  if (std::rename(temporary_.c_str(), place_.c_str()) != 0) {
    fail_with_errno("write", target_, errno);
  }
  descriptor_.reset();
  sync_folder(folder_of(place_));
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
