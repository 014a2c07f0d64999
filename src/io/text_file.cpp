#include "io/text_file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "io/file_descriptor.h"

namespace nibble::io {
namespace {

constexpr std::int64_t kSmallestChunk = 4096;
constexpr std::int64_t kLargestChunk = 1 << 20;

// As messages have it.
std::filesystem::path name_of(const std::filesystem::path& path) {
  return path == kStandardInput ? "standard input" : path;
}

void require_size(std::int64_t size, std::int64_t max_bytes, const std::filesystem::path& path) {
  core::require(size <= max_bytes, core::ErrorKind::kIo,
                "cannot read {}: it holds {} bytes or more, at most {} are allowed",
                core::lazily([&] { return shown_text(path); }), size, max_bytes);
}

// The file may grow while it is read, and pipes and files of /proc have no size: reads until there
// is no more.
std::string read_to_end(const OpenFile& file, const std::filesystem::path& path,
                        std::int64_t max_bytes) {
  require_size(file.size, max_bytes, path);
  std::string text;
  text.reserve(static_cast<std::size_t>(file.size + kSmallestChunk));
  while (true) {
    const auto at = static_cast<std::int64_t>(text.size());
    const std::int64_t chunk = std::clamp(file.size - at, kSmallestChunk, kLargestChunk);
    text.resize(static_cast<std::size_t>(at + chunk));
    const ssize_t count =
        ::read(file.descriptor.get(), text.data() + at, static_cast<std::size_t>(chunk));
    text.resize(static_cast<std::size_t>(at + std::max<ssize_t>(count, 0)));
    if (count < 0 && errno != EINTR) {
      fail_with_errno("read", name_of(path), errno);
    }
    if (count == 0) {
      return text;
    }
    require_size(static_cast<std::int64_t>(text.size()), max_bytes, path);
  }
}

// A device may have no end; a terminal has one, and so has /dev/null, a usual standard input.
bool can_be_read_to_end(const struct stat& status, int descriptor, bool standard_input) {
  return S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) ||
         (S_ISCHR(status.st_mode) && (standard_input || ::isatty(descriptor) != 0));
}

OpenFile open_named(const std::filesystem::path& path) {
  const bool standard_input = path == kStandardInput;
  OpenFile file;
  file.descriptor =
      FileDescriptor(standard_input ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                    : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  struct stat status = {};
  if (!file.descriptor.is_open() || ::fstat(file.descriptor.get(), &status) != 0) {
    fail_with_errno("open", name_of(path), errno);
  }
  core::require(can_be_read_to_end(status, file.descriptor.get(), standard_input),
                core::ErrorKind::kIo, "cannot read {}: it is neither a file nor a pipe",
                core::lazily([&] { return shown_text(path); }));
  file.size = S_ISREG(status.st_mode) ? static_cast<std::int64_t>(status.st_size) : 0;
  return file;
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  return read_to_end(open_regular_file(path), path, max_bytes);
}

std::string read_named_text(const std::filesystem::path& path, std::int64_t max_bytes) {
  return read_to_end(open_named(path), path, max_bytes);
}

std::string shown_text(const std::filesystem::path& path) {
  return path == kStandardInput ? "standard input" : fmt::format("'{}'", shown(path));
}

}  // namespace nibble::io
