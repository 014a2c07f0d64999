#pragma once

#include <cstdint>
#include <span>

#include "device/cuda/memory.h"
#include "ops/cuda/attention/kv_layout.h"

namespace nibble::ops::cuda {

/// Device memory for the keys and values of all layers, in pages of kPageTokens tokens: a page
/// number stands for that page in every layer (paged attention, arXiv 2309.06180). Who uses which
/// page is decided by others. What was not written to is undefined.
class KvPool {
 public:
  /// Throws kUsage for 4 bits and an odd head_dim and for FP8 beside another type, kOutOfMemory
  /// when the device has not enough.
  KvPool(const KvLayout& layout, std::int64_t layers, std::int64_t pages);

  const KvLayout& layout() const { return layout_; }
  std::int64_t layers() const { return layers_; }
  std::int64_t pages() const { return pages_; }
  std::int64_t bytes() const { return memory_.bytes(); }

  /// The first page of a layer.
  std::byte* layer(std::int64_t index) const {
    return memory_.data() + index * pages_ * layout_.page_bytes();
  }

 private:
  KvLayout layout_;
  std::int64_t layers_;
  std::int64_t pages_;
  device::cuda::Buffer memory_;
};

/// Throws kFailed for a page that a pool has not.
void check_page(const KvPool& pool, PageId page);

/// The pages of one sequence, in [0, KvPool::pages()): position p lies in page p / kPageTokens of
/// the list.
struct KvSequence {
  std::span<const PageId> pages;
};

}  // namespace nibble::ops::cuda
