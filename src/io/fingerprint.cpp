#include "io/fingerprint.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"
#include "io/file_descriptor.h"

namespace nibble::io {
namespace {

constexpr std::int64_t kPiece = 1 << 20;
constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kPages = 256;

struct Source {
  const std::filesystem::path& path;
  OpenFile file;
};

// Reading leaves the pages in the system's cache and takes no memory of this process.
void read_at(const Source& source, std::int64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(source.file.descriptor.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail_with_errno("read", source.path, errno);
    }
    core::require(count > 0, core::ErrorKind::kIo, "'{}' lost bytes while it was being read",
                  shown(source.path));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

std::uint64_t hash_sample(const Source& source) {
  const std::int64_t size = source.file.size;
  const std::int64_t step = std::max(kPage, (size - 1) / kPages / kPage * kPage + kPage);
  std::vector<std::byte> sample;
  for (std::int64_t offset = 0; offset < size; offset += step) {
    const auto length = static_cast<std::size_t>(std::min(kPage, size - offset));
    sample.resize(sample.size() + length);
    read_at(source, offset, std::span(sample).last(length));
  }
  return core::hash64(sample);
}

std::uint64_t hash_content(const Source& source, core::ThreadPool& pool) {
  const std::int64_t size = source.file.size;
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>((size + kPiece - 1) / kPiece));
  pool.parallel_for(std::ssize(hashes), 8, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte> piece(static_cast<std::size_t>(kPiece));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t offset = i * kPiece;
      const auto part =
          std::span(piece).first(static_cast<std::size_t>(std::min(kPiece, size - offset)));
      read_at(source, offset, part);
      hashes[static_cast<std::size_t>(i)] = core::hash64(part);
    }
  });
  return core::hash64(std::as_bytes(std::span(hashes)));
}

// Times that do not fit (beyond the year 2262) are all one.
std::int64_t modified_at(const Source& source) {
  const FileState state = state_of(source.file.descriptor, source.path);
  std::int64_t time = 0;
  const bool overflow = __builtin_mul_overflow(state.modified_seconds, 1'000'000'000, &time) ||
                        __builtin_add_overflow(time, state.modified_nanoseconds, &time);
  return overflow ? std::numeric_limits<std::int64_t>::max() : time;
}

}  // namespace

Fingerprint fingerprint(const std::filesystem::path& path, core::ThreadPool& pool) {
  const Source source{path, open_regular_file(path)};
  Fingerprint print;
  print.name = path.filename().string();
  print.bytes = source.file.size;
  print.modified = modified_at(source);
  print.sample = hash_sample(source);
  print.content = hash_content(source, pool);
  return print;
}

bool has_fingerprint(const std::filesystem::path& path, const Fingerprint& expected,
                     core::ThreadPool& pool) {
  const Source source{path, open_regular_file(path)};
  if (path.filename().string() != expected.name || source.file.size != expected.bytes) {
    return false;
  }
  return modified_at(source) == expected.modified ? hash_sample(source) == expected.sample
                                                  : hash_content(source, pool) == expected.content;
}

}  // namespace nibble::io
