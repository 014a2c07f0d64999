#include "ops/cpu/packed/page_buffer.h"

#include <utility>

#include <sys/mman.h>

#include "core/error.h"
#include "core/memory.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

PageBuffer::PageBuffer(std::int64_t bytes) : bytes_(bytes) {
  if (bytes <= 0) {
    return;
  }
  const std::size_t size = round_up(static_cast<std::size_t>(bytes), kPage);
  const bool huge = size >= kHugePage;
  const std::size_t mapped = huge ? size + kHugePage : size;
  void* memory = core::machine_has(bytes) ? mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                          : MAP_FAILED;
  core::require(memory != MAP_FAILED, core::ErrorKind::kOutOfMemory,
                "cannot allocate {} bytes for packed weights or activations; "
                "free memory or take a smaller model",
                bytes);
  data_ = static_cast<std::byte*>(memory);
  if (!huge) {
    return;
  }
  // Keep the part that starts on a 2 MiB border and give the ends back.
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::size_t skip = round_up(address, kHugePage) - address;
  if (skip > 0) {
    munmap(data_, skip);
  }
  if (skip < kHugePage) {
    munmap(data_ + skip + size, kHugePage - skip);
  }
  data_ += skip;
  madvise(data_, size, MADV_HUGEPAGE);  // advice only: small pages work too
}

PageBuffer::~PageBuffer() {
  release();
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void PageBuffer::release() noexcept {
  if (data_ != nullptr) {
    munmap(data_, round_up(static_cast<std::size_t>(bytes_), kPage));
  }
}

}  // namespace nibble::ops::cpu
