#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/memory.h"
#include "ops/cuda/attention/swap_pages.h"

namespace nibble::ops::cuda {

/// Memory of the host for pages of a pool whose place others need (vLLM's swap space, arXiv
/// 2309.06180, section 4.5). It is taken as it is needed, and pinned: the device copies by itself.
class SwapSpace {
 public:
  /// For pages of all layers of so many bytes; at most `bytes` of memory.
  SwapSpace(std::int64_t page_bytes, std::int64_t bytes);

  /// Places for `count` pages, of which nobody has any; none at all where there are too few, or the
  /// host has no such memory.
  std::vector<std::byte*> take(std::int64_t count);
  /// Places that take() gave, whose pages are no longer needed.
  void give_back(std::span<std::byte* const> places);

  std::int64_t free() const { return most_ - taken_; }

 private:
  std::int64_t page_bytes_;
  std::int64_t most_;  // pages
  std::int64_t taken_ = 0;
  std::vector<device::cuda::PinnedBuffer> memory_;
  std::int64_t made_ = 0;  // pages in memory_
  std::vector<std::byte*> free_;
};

}  // namespace nibble::ops::cuda
