#include "ops/cpu/attention/kv_cache.h"

#include <numeric>

#include "core/error.h"

namespace nibble::ops::cpu {

KvCache::KvCache(KvPool& pool, std::span<const PageId> pages)
    : pool_(&pool),
      pages_(pages),
      capacity_(static_cast<std::int64_t>(pages.size()) * kPageTokens) {
  for (const PageId page : pages) {
    core::require(page >= 0 && page < pool.pages(), core::ErrorKind::kFailed,
                  "a sequence lists page {} of a KV cache that has {}", page, pool.pages());
  }
}

KvCache::KvCache(KvTypes types, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
                 std::int64_t capacity)
    : own_pool_(std::make_unique<KvPool>(types, layers, kv_heads, head_dim, pages_for(capacity))),
      own_pages_(static_cast<std::size_t>(own_pool_->pages())),
      pool_(own_pool_.get()),
      pages_(own_pages_),
      capacity_(capacity) {
  std::iota(own_pages_.begin(), own_pages_.end(), PageId{0});
}

std::int64_t KvCache::bytes(KvTypes types, std::int64_t layers, std::int64_t kv_heads,
                            std::int64_t head_dim, std::int64_t capacity) {
  return pages_for(capacity) * KvPool::page_bytes(types, layers, kv_heads, head_dim);
}

void KvCache::store(std::int64_t layer, std::int64_t kv_head, std::int64_t position,
                    const float* key, const float* value) {
  core::require(position >= 0 && position < capacity_, core::ErrorKind::kFailed,
                "a KV cache of {} tokens has no place for position {}", capacity_, position);
  pool_->store(pages_[static_cast<std::size_t>(position / kPageTokens)], position % kPageTokens,
               layer, kv_head, key, value);
}

}  // namespace nibble::ops::cpu
