#include "ops/cuda/attention/kv_pool.h"

#include <limits>
#include <numeric>
#include <utility>

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
      pages_(pages),
      free_(static_cast<std::size_t>(pages)),
      memory_(layers * pages * layout.page_bytes()) {
  std::iota(free_.rbegin(), free_.rend(), 0);  // page 0 is taken first
}

std::int32_t KvPool::take() {
  core::require(!free_.empty(), ErrorKind::kOutOfMemory,
                "all {} pages of the KV cache are in use ({} tokens); run fewer or shorter "
                "sequences, or make the cache larger",
                pages_, pages_ * kPageTokens);
  const std::int32_t page = free_.back();
  free_.pop_back();
  return page;
}

void KvPool::give_back(std::int32_t page) {
  free_.push_back(page);
}

KvSequence::~KvSequence() {
  truncate(0);
}

KvSequence::KvSequence(KvSequence&& other) noexcept
    : pool_(other.pool_), pages_(std::exchange(other.pages_, {})) {}

KvSequence& KvSequence::operator=(KvSequence&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(pages_, other.pages_);
  return *this;
}

void KvSequence::reserve(std::int64_t tokens) {
  const std::size_t before = pages_.size();
  try {
    while (capacity() < tokens) {
      pages_.push_back(pool_->take());
    }
  } catch (...) {
    truncate(static_cast<std::int64_t>(before) * kPageTokens);
    throw;
  }
}

void KvSequence::truncate(std::int64_t tokens) {
  const std::int64_t kept = (tokens + kPageTokens - 1) / kPageTokens;
  while (static_cast<std::int64_t>(pages_.size()) > kept) {
    pool_->give_back(pages_.back());
    pages_.pop_back();
  }
}

}  // namespace nibble::ops::cuda
