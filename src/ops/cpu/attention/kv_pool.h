#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "formats/hadamard.h"
#include "ops/cpu/attention/kv_view.h"

namespace nibble::ops::cpu {

/// Memory for keys and values in pages of kPageTokens tokens, for all layers and KV heads. Who uses
/// which page is decided by others. Within a page lie, for each layer and KV head: keys, values,
/// then for each of them that are integers steps [16] and smallest [16] in float16. Floats are
/// vectors of 16 tokens, [16, head_dim]; integers have lines of codes, and so have keys in FP8
/// (kv_layout.h), as many as 16 vectors take, more where head_dim does not fill them. Pages that
/// nothing was written to take up no memory.
///
/// 4-bit codes are those of the vector times a Hadamard matrix, where one of that size exists: it
/// leaves no element much larger than the others (QuaRot, arXiv 2404.00456, section 4). Queries
/// must be turned like keys, and results turned back like values.
class KvPool {
 public:
  /// Throws kUsage for kInt4 and an odd head_dim, for kFp8 beside another type, and for sizes that
  /// no memory has; kOutOfMemory when the system refuses so much.
  KvPool(KvTypes types, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
         std::int64_t pages);
  ~KvPool();
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  KvTypes types() const { return types_; }
  std::int64_t head_dim() const { return head_dim_; }
  std::int64_t pages() const { return pages_; }
  std::int64_t page_bytes() const { return page_bytes_; }

  static std::int64_t page_bytes(KvTypes types, std::int64_t layers, std::int64_t kv_heads,
                                 std::int64_t head_dim);

  /// Keys or values of one head of the sequence whose pages are listed. `list` must outlive them;
  /// its entries lie in [0, pages()).
  KvPages keys(std::int64_t layer, std::int64_t kv_head, const PageId* list) const {
    return view(keys_, layer * kv_heads_ + kv_head, list);
  }
  KvPages values(std::int64_t layer, std::int64_t kv_head, const PageId* list) const {
    return view(values_, layer * kv_heads_ + kv_head, list);
  }

  /// Writes the token at `slot` of a page for one head: vectors of head_dim floats. Throws kFailed
  /// where there is no such page, slot, layer or head.
  void store(PageId page, std::int64_t slot, std::int64_t layer, std::int64_t kv_head,
             const float* key, const float* value);

  /// Gives page `to` the contents of page `from`. Throws kFailed where there is no such page.
  void copy(PageId from, PageId to);

  /// By what keys, or values, are multiplied before they are rounded; null: by nothing.
  const formats::Hadamard* key_turn() const { return turn_of(types_.keys); }
  const formats::Hadamard* value_turn() const { return turn_of(types_.values); }

 private:
  // Keys or values within a block, which holds one head of one layer of a page.
  struct Half {
    KvType type;
    std::int64_t vectors;  // offset in bytes
    std::int64_t ranges;   // the same, from the block's start; 0 for floats
  };

  const formats::Hadamard* turn_of(KvType type) const {
    return type == KvType::kInt4 && turn_ ? &*turn_ : nullptr;
  }
  KvPages view(const Half& half, std::int64_t block, const PageId* list) const;
  void store_floats(const Half& half, std::byte* block, std::int64_t slot, const float* x);
  // Puts codes of `bits` bits of the token at `slot` into the lines of a page.
  using PutCodes = void (*)(int bits, const std::uint8_t* codes, std::int64_t head_dim,
                            std::int64_t slot, std::uint8_t* lines);
  void store_integers(const Half& half, std::byte* block, std::int64_t slot, const float* x,
                      PutCodes put);

  KvTypes types_;
  std::int64_t layers_;
  std::int64_t kv_heads_;
  std::int64_t head_dim_;
  std::int64_t pages_;
  std::int64_t block_bytes_;
  std::int64_t page_bytes_;
  Half keys_;
  Half values_;
  std::optional<formats::Hadamard> turn_;
  std::size_t mapped_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace nibble::ops::cpu
