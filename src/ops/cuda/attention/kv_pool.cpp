#include "ops/cuda/attention/kv_pool.h"

#include <limits>

#include "core/error.h"

namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;

const KvLayout& checked(const KvLayout& layout, std::int64_t layers, std::int64_t pages) {
  const bool nibbles = layout.types.keys == KvType::kInt4 || layout.types.values == KvType::kInt4;
  core::require(!nibbles || layout.head_dim % 2 == 0, ErrorKind::kUsage,
                "heads of {} elements do not fill bytes with 4-bit codes; use the KV cache type "
                "int8 or f16",
                layout.head_dim);
  core::require(layout.types.go_together(), ErrorKind::kUsage,
                "keys and values of a KV cache are both fp8, or neither of them");
  core::require(layers > 0 && pages > 0 && layout.kv_heads > 0 && layout.head_dim > 0,
                ErrorKind::kUsage,
                "a KV pool of {} layers, {} pages and {} heads of {} elements can't be made",
                layers, pages, layout.kv_heads, layout.head_dim);
  core::require(pages <= std::numeric_limits<std::int32_t>::max() / kPageTokens, ErrorKind::kUsage,
                "a KV pool has at most {} pages, not {}",
                std::numeric_limits<std::int32_t>::max() / kPageTokens, pages);
  return layout;
}

}  // namespace

KvPool::KvPool(const KvLayout& layout, std::int64_t layers, std::int64_t pages)
    : layout_(checked(layout, layers, pages)),
      layers_(layers),
      pages_(pages),
      memory_(layers * pages * layout.page_bytes()) {}

void check_page(const KvPool& pool, PageId page) {
  core::require(page >= 0 && page < pool.pages(), ErrorKind::kFailed,
                "page {} is none of the {} of a KV pool", page, pool.pages());
}

}  // namespace nibble::ops::cuda
