#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/cpu/attention/kv_pool.h"

namespace nibble::ops::cpu {

/// Keys and values of one sequence for all layers: pages of a pool, or memory of its own. Position
/// p lies in page p / kPageTokens of the list.
class KvCache {
 public:
  /// Pages of a pool that others hand out; pool and list must outlive the cache. Throws kFailed for
  /// a page that the pool does not have.
  KvCache(KvPool& pool, std::span<const PageId> pages);

  /// Room of its own for `capacity` tokens. Throws as KvPool does.
  KvCache(KvTypes types, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
          std::int64_t capacity);

  KvTypes types() const { return pool_->types(); }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t head_dim() const { return pool_->head_dim(); }

  /// Only positions that were stored may be read.
  KvPages keys(std::int64_t layer, std::int64_t kv_head) const {
    return pool_->keys(layer, kv_head, pages_.data());
  }
  KvPages values(std::int64_t layer, std::int64_t kv_head) const {
    return pool_->values(layer, kv_head, pages_.data());
  }

  /// Writes one position of one head: vectors of head_dim floats. Throws kFailed for a position
  /// outside [0, capacity).
  void store(std::int64_t layer, std::int64_t kv_head, std::int64_t position, const float* key,
             const float* value);

  const formats::Hadamard* key_turn() const { return pool_->key_turn(); }
  const formats::Hadamard* value_turn() const { return pool_->value_turn(); }

  /// Of a cache with room of its own: whole pages.
  static std::int64_t bytes(KvTypes types, std::int64_t layers, std::int64_t kv_heads,
                            std::int64_t head_dim, std::int64_t capacity);

 private:
  std::unique_ptr<KvPool> own_pool_;  // null: the pool is another's
  std::vector<PageId> own_pages_;
  KvPool* pool_;
  std::span<const PageId> pages_;
  std::int64_t capacity_;
};

}  // namespace nibble::ops::cpu
