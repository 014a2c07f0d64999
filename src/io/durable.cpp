#include "io/durable.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"
#include "io/file_descriptor.h"

namespace nibble::io {
namespace {

void sync_path(const std::filesystem::path& path, int flags) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | flags));
  // EINVAL: a file system that has nothing to wait for.
  if (!file.is_open() || (::fsync(file.get()) != 0 && errno != EINVAL)) {
    fail_with_errno("write", path, errno);
  }
}

}  // namespace

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (!file.is_open() || (::fsync(file.get()) != 0 && errno != EINVAL)) {
    fail_with_errno("write", folder, errno);
  }
}

void sync_tree(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    const auto type = entry->symlink_status(error).type();
    if (type == std::filesystem::file_type::regular) {
      sync_path(entry->path(), 0);
    } else if (type == std::filesystem::file_type::directory) {
      sync_path(entry->path(), O_DIRECTORY);
    }
  }
  core::require(!error, core::ErrorKind::kIo, "cannot list '{}': {}", shown(folder),
                core::lazily([&] { return error.message(); }));
  sync_folder(folder);
}

}  // namespace nibble::io
