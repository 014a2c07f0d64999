#include "core/releasable_memory.h"

#include <algorithm>

#include <sys/mman.h>

#include "core/error.h"
#include "core/memory.h"

namespace nibble::core {
namespace {

constexpr std::int64_t kSmallestMapping = 1;  // there is none of no bytes

}  // namespace

ReleasableMemory::ReleasableMemory(std::int64_t bytes) : bytes_(std::max(bytes, kSmallestMapping)) {
  void* const memory = map_zeros(bytes_);
  require(memory != nullptr, ErrorKind::kOutOfMemory, "cannot allocate {} bytes", bytes_);
  data_ = static_cast<std::byte*>(memory);
}

ReleasableMemory::~ReleasableMemory() {
  munmap(data_, static_cast<std::size_t>(bytes_));
}

void ReleasableMemory::release() {
  const auto size = static_cast<std::size_t>(bytes_);
  // Where the system refuses one of these, memory is kept that nobody needs, and no more.
  if (mprotect(data_, size, PROT_NONE) == 0) {
    madvise(data_, size, MADV_DONTNEED);
  }
}

void ReleasableMemory::take_again() {
  const bool taken = mprotect(data_, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE) == 0;
  require(taken, ErrorKind::kOutOfMemory, "cannot allocate {} bytes", bytes_);
}

}  // namespace nibble::core
