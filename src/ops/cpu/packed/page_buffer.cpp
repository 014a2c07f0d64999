#include "ops/cpu/packed/page_buffer.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "core/error.h"
#include "core/memory.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLeastShared = std::size_t{256} << 10;  // buffers that lie in regions
constexpr std::size_t kRegion = std::size_t{16} << 20;        // at least

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Zero-filled pages; null where the system gives none.
std::byte* map_pages(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

/// `size` bytes, a multiple of 2 MiB, on a 2 MiB border.
std::byte* map_huge_pages(std::size_t size) {
  std::byte* memory = map_pages(size + kHugePage);
  if (memory == nullptr) {
    return nullptr;
  }
  // Keep the part that starts on the border and give the ends back.
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::size_t skip = round_up(address, kHugePage) - address;
  if (skip > 0) {
    munmap(memory, skip);
  }
  munmap(memory + skip + size, kHugePage - skip);
  madvise(memory + skip, size, MADV_HUGEPAGE);  // advice only: small pages work too
  return memory + skip;
}

/// Runs of huge pages that buffers lie in one behind the other. A buffer in pages of its own would
/// end in small ones, up to 2 MiB of it: most of a layer, where layers are small.
class Regions {
 public:
  /// `size`: a multiple of the page.
  std::byte* take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    auto region = std::find_if(regions_.begin(), regions_.end(), [size](const Region& each) {
      return each.size - each.used >= size;
    });
    if (region == regions_.end()) {
      regions_.reserve(regions_.size() + 1);
      const std::size_t least = round_up(size, kHugePage);
      const std::size_t wanted = std::max(least, kRegion);
      std::byte* begin = map_huge_pages(wanted);
      if (begin != nullptr) {
        regions_.push_back({begin, wanted});
      } else if (begin = map_huge_pages(least); begin != nullptr) {
        regions_.push_back({begin, least});
      } else {
        return nullptr;
      }
      region = regions_.end() - 1;
    }
    ++region->buffers;
    return region->begin + std::exchange(region->used, region->used + size);
  }

  /// The pages return to the system at once, the addresses with the last buffer of the region.
  void give_back(std::byte* data, std::size_t size) noexcept {
    const std::lock_guard lock(mutex_);
    const auto region = std::find_if(regions_.begin(), regions_.end(), [data](const Region& each) {
      return data >= each.begin && data < each.begin + each.size;
    });
    if (--region->buffers > 0) {
      madvise(data, size, MADV_DONTNEED);
      return;
    }
    munmap(region->begin, region->size);
    regions_.erase(region);
  }

 private:
  struct Region {
    std::byte* begin = nullptr;
    std::size_t size = 0;
    std::size_t used = 0;  // bytes from the start, whether their buffers still live or not
    std::int64_t buffers = 0;
  };
  std::mutex mutex_;
  std::vector<Region> regions_;
};

/// Never destroyed: buffers of static objects may outlive everything.
Regions& regions() {
  static auto& all = *new Regions;
  return all;
}

}  // namespace

PageBuffer::PageBuffer(std::int64_t bytes) : bytes_(bytes) {
  if (bytes <= 0) {
    return;
  }
  const std::size_t size = round_up(static_cast<std::size_t>(bytes), kPage);
  if (core::machine_has(bytes)) {
    data_ = size < kLeastShared ? map_pages(size) : regions().take(size);
  }
  core::require(data_ != nullptr, core::ErrorKind::kOutOfMemory,
                "cannot allocate {} bytes for packed weights or activations; "
                "free memory or take a smaller model",
                bytes);
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
  if (data_ == nullptr) {
    return;
  }
  const std::size_t size = round_up(static_cast<std::size_t>(bytes_), kPage);
  if (size < kLeastShared) {
    munmap(data_, size);
  } else {
    regions().give_back(data_, size);
  }
}

}  // namespace nibble::ops::cpu
