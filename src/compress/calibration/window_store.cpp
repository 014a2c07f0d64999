#include "compress/calibration/window_store.h"

#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"

namespace nibble::compress {
namespace {

using ops::cpu::Matrix;

// Where the file system knows files without names they never get one; elsewhere the name is
// removed at once. It is one that io::AtomicFolder clears away, should the process be killed
// between the two calls.
io::FileDescriptor open_unnamed(const std::filesystem::path& folder) {
  io::FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.is_open() || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
    return file;
  }
  constexpr std::string_view kSuffix = ".partial";
  std::string name = (folder / (".hidden-states.XXXXXX" + std::string(kSuffix))).string();
  file = io::FileDescriptor(::mkostemps(name.data(), static_cast<int>(kSuffix.size()), O_CLOEXEC));
  if (file.is_open()) {
    ::unlink(name.c_str());
  }
  return file;
}

// Calls `step` (pread or pwrite) until all bytes are through. Returns 0 or an errno.
template <typename Step, typename Byte>
int transfer(Step step, int fd, Byte* bytes, std::size_t size, std::int64_t offset) {
  while (size > 0) {
    const ssize_t done = step(fd, bytes, size, offset);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      return done < 0 ? errno : EIO;  // the file is never shorter than what was written
    }
    bytes += done;
    size -= static_cast<std::size_t>(done);
    offset += done;
  }
  return 0;
}

}  // namespace

WindowStore::WindowStore(const std::optional<std::filesystem::path>& folder) {
  if (!folder) {
    return;
  }
  folder_ = *folder;
  file_ = open_unnamed(folder_);
  if (!file_.is_open()) {
    io::fail_with_errno("create a temporary file for calibration in", folder_, errno);
  }
}

void WindowStore::add(Matrix&& x) {
  windows_.push_back({x.rows(), x.columns(), end_, Matrix()});
  end_ += static_cast<std::int64_t>(x.values().size_bytes());
  write(windows_.size() - 1, std::move(x));
}

Matrix WindowStore::read(std::size_t window, ops::cpu::CpuOps& ops) const {
  const Window& from = windows_[window];
  Matrix x = ops.matrix(from.rows, from.columns);
  read(window, x.data());
  return x;
}

void WindowStore::read(std::size_t window, float* to) const {
  const Window& from = windows_[window];
  const auto bytes = static_cast<std::size_t>(from.rows * from.columns) * sizeof(float);
  if (!is_file()) {
    std::memcpy(to, from.values.data(), bytes);
    return;
  }
  auto* const target = reinterpret_cast<char*>(to);
  if (const int error = transfer(::pread, file_.get(), target, bytes, from.offset); error != 0) {
    io::fail_with_errno("read hidden states of calibration from the temporary file in", folder_,
                        error);
  }
}

void WindowStore::write(std::size_t window, Matrix&& x) {
  Window& to = windows_[window];
  assert(x.rows() == to.rows && x.columns() == to.columns);
  if (!is_file()) {
    to.values = std::move(x);
    return;
  }
  const auto* from = reinterpret_cast<const char*>(x.data());
  const std::size_t bytes = x.values().size_bytes();
  if (const int error = transfer(::pwrite, file_.get(), from, bytes, to.offset); error != 0) {
    io::fail_with_errno("write hidden states of calibration to a temporary file in", folder_,
                        error);
  }
}

}  // namespace nibble::compress
