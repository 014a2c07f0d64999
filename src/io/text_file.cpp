#include "io/text_file.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "core/error.h"
#include "io/file_descriptor.h"

namespace nibble::io {
namespace {

constexpr std::int64_t kSmallestChunk = 4096;
constexpr std::int64_t kLargestChunk = 1 << 20;

void require_size(std::int64_t size, std::int64_t max_bytes, const std::filesystem::path& path) {
  core::require(size <= max_bytes, core::ErrorKind::kIo,
                "cannot read '{}': it holds {} bytes or more, at most {} are allowed", shown(path),
                size, max_bytes);
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  const OpenFile file = open_regular_file(path);
  require_size(file.size, max_bytes, path);
  std::string text;
  text.reserve(static_cast<std::size_t>(file.size + kSmallestChunk));
  // The file may grow while it is read, and files of /proc have no size: read until there is no
  // more.
  while (true) {
    const auto at = static_cast<std::int64_t>(text.size());
    const std::int64_t chunk = std::clamp(file.size - at, kSmallestChunk, kLargestChunk);
    text.resize(static_cast<std::size_t>(at + chunk));
    const ssize_t count =
        ::read(file.descriptor.get(), text.data() + at, static_cast<std::size_t>(chunk));
    text.resize(static_cast<std::size_t>(at + std::max<ssize_t>(count, 0)));
    if (count < 0 && errno != EINTR) {
      fail_with_errno("read", path, errno);
    }
    if (count == 0) {
      return text;
    }
    require_size(static_cast<std::int64_t>(text.size()), max_bytes, path);
  }
}

}  // namespace nibble::io
