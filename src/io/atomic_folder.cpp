#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/durable.h"

namespace nibble::io {
namespace {

namespace fs = std::filesystem;

// "out/" means the folder "out".
fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

fs::path partial_of(const fs::path& target) {
  return folder_of(target) / fmt::format(".{}.partial", target.filename().native());
}

void require_free(const fs::path& target) {
  struct stat status = {};
  core::require(::lstat(target.c_str(), &status) != 0, core::ErrorKind::kIo,
                "cannot write '{}': it exists already; remove it or choose another name",
                shown(target));
}

// Locks the folder itself, then makes sure that this is still the folder of that name: its last
// owner may have renamed or removed it between open() and flock().
bool lock_folder(const fs::path& folder, const fs::path& target, FileDescriptor& lock) {
  lock = FileDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock.is_open()) {
    if (errno == ENOENT) {
      return false;
    }
    fail_with_errno("write into", folder, errno);
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    core::require(errno != EWOULDBLOCK, core::ErrorKind::kIo,
                  "cannot write '{}': another process is writing it (in '{}')", shown(target),
                  shown(folder));
    fail_with_errno("lock", folder, errno);
  }
  struct stat by_name = {};
  struct stat by_descriptor = {};
  return ::lstat(folder.c_str(), &by_name) == 0 && ::fstat(lock.get(), &by_descriptor) == 0 &&
         by_name.st_ino == by_descriptor.st_ino && by_name.st_dev == by_descriptor.st_dev;
}

template <typename Condition>
void remove_entries(const fs::path& folder, Condition condition) {
  std::error_code error;
  std::vector<fs::path> doomed;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (condition(entry->path().filename().native())) {
      doomed.push_back(entry->path());
    }
  }
  for (const fs::path& path : doomed) {
    if (!error) {
      fs::remove_all(path, error);
    }
  }
  core::require(!error, core::ErrorKind::kIo, "cannot clear '{}': {}", shown(folder),
                core::lazily([&] { return error.message(); }));
}

bool is_unfinished_file(std::string_view name) {
  return name.starts_with('.') && name.ends_with(".partial");
}

// rename() would replace a target that appeared meanwhile, if that is an empty folder.
int rename_to_free_name(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return errno;
  }
  require_free(to);  // a file system without RENAME_NOREPLACE
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

AtomicFolder AtomicFolder::create(const fs::path& target) {
  return AtomicFolder(target, Leftover::kRemove);
}

AtomicFolder AtomicFolder::open_or_create(const fs::path& target) {
  return AtomicFolder(target, Leftover::kKeep);
}

AtomicFolder::AtomicFolder(const fs::path& target, Leftover leftover)
    : target_(without_trailing_slash(target)), partial_(partial_of(target_)) {
  core::require(!target_.filename().empty() && target_.filename() != "." &&
                    target_.filename() != ".." && target_.native().find('\0') == std::string::npos,
                core::ErrorKind::kIo, "cannot write '{}': it is not the name of a folder",
                shown(target));
  require_free(target_);
  do {
    resumed_ = ::mkdir(partial_.c_str(), 0777) != 0;
    if (resumed_ && errno != EEXIST) {
      fail_with_errno("write", target_, errno);
    }
  } while (!lock_folder(partial_, target_, lock_));
  require_free(target_);  // its last owner may have committed just before the lock became ours
  if (leftover == Leftover::kRemove) {
    remove_entries(partial_, [](std::string_view) { return true; });
    resumed_ = false;
  } else {
    remove_entries(partial_, is_unfinished_file);
  }
}

std::vector<std::string> AtomicFolder::files() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(partial_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with('.') && entry->is_regular_file(error)) {
      names.push_back(name);
    }
  }
  core::require(!error, core::ErrorKind::kIo, "cannot list '{}': {}", shown(partial_),
                core::lazily([&] { return error.message(); }));
  std::sort(names.begin(), names.end());
  return names;
}

void AtomicFolder::commit() {
  assert(lock_.is_open());
  sync_tree(partial_);
  if (const int error = rename_to_free_name(partial_, target_); error != 0) {
    core::require(error != EEXIST && error != ENOTEMPTY, core::ErrorKind::kIo,
                  "cannot write '{}': it appeared meanwhile; the result stays in '{}'",
                  shown(target_), shown(partial_));
    fail_with_errno("write", target_, error);
  }
  lock_.reset();
  sync_folder(folder_of(target_));
}

void AtomicFolder::discard() {
  assert(lock_.is_open());
  std::error_code error;
  fs::remove_all(partial_, error);
  core::require(!error, core::ErrorKind::kIo, "cannot remove '{}': {}", shown(partial_),
                core::lazily([&] { return error.message(); }));
  lock_.reset();
}

}  // namespace nibble::io
