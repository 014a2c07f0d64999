#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/memory.h"
#include "ops/cuda/attention/kv_layout.h"

namespace nibble::ops::cuda {

/// Device memory for the keys and values of all layers, handed out in pages of kPageTokens tokens:
/// a page number stands for that page in every layer (paged attention, arXiv 2309.06180).
class KvPool {
 public:
  /// Throws kUsage for 4 bits and an odd head_dim, kOutOfMemory when the device has not enough.
  KvPool(const KvLayout& layout, std::int64_t layers, std::int64_t pages);

  const KvLayout& layout() const { return layout_; }
  std::int64_t pages() const { return pages_; }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t bytes() const { return memory_.bytes(); }

  /// The first page of a layer.
  std::byte* layer(std::int64_t index) const {
    return memory_.data() + index * pages_ * layout_.page_bytes();
  }

  /// A page of undefined content. Throws kOutOfMemory when all are taken.
  std::int32_t take();
  void give_back(std::int32_t page);

 private:
  KvLayout layout_;
  std::int64_t pages_;
  std::vector<std::int32_t> free_;
  device::cuda::Buffer memory_;
};

/// The pages of one sequence: position p lies in page p / kPageTokens of the list. Move-only; gives
/// its pages back to the pool, which must outlive it.
class KvSequence {
 public:
  explicit KvSequence(KvPool& pool) : pool_(&pool) {}
  ~KvSequence();
  KvSequence(KvSequence&& other) noexcept;
  KvSequence& operator=(KvSequence&& other) noexcept;

  /// Takes pages until `tokens` positions have a place. Throws kOutOfMemory when the pool is empty;
  /// the sequence is then as it was.
  void reserve(std::int64_t tokens);
  /// Gives back all pages that positions from `tokens` on would use.
  void truncate(std::int64_t tokens);

  std::span<const std::int32_t> pages() const { return pages_; }
  std::int64_t capacity() const { return static_cast<std::int64_t>(pages_.size()) * kPageTokens; }

 private:
  KvPool* pool_;
  std::vector<std::int32_t> pages_;
};

}  // namespace nibble::ops::cuda
