#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/threads.h"
#include "device/cuda/pinned_pages.h"
#include "ops/cuda/attention/swap_pages.h"

namespace nibble::ops::cuda {

/// Memory of the host for pages of a pool whose place others need (vLLM's swap space, arXiv
/// 2309.06180, section 4.5). It is taken as it is needed, and pinned: the device copies by itself.
class SwapSpace {
 public:
  /// For pages of all layers of so many bytes; at most `bytes` of memory. Threads of `pool` help to
  /// take it.
  SwapSpace(std::int64_t page_bytes, std::int64_t bytes, core::ThreadPool& pool);

  /// Places for `count` pages, of which nobody has any; none at all where there are too few, or the
  /// host has little memory left.
  std::vector<std::byte*> take(std::int64_t count);
  /// Places that take() gave, whose pages are no longer needed.
  void give_back(std::span<std::byte* const> places);

  std::int64_t free() const { return most_ - taken_; }

 private:
  std::int64_t page_bytes_;
  std::int64_t most_;  // pages
  std::int64_t taken_ = 0;
  core::ThreadPool& pool_;
  std::vector<device::cuda::PinnedPages> memory_;
  std::int64_t made_ = 0;  // pages in memory_
  std::vector<std::byte*> free_;
};

}  // namespace nibble::ops::cuda
