#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/float16.h"
#include "formats/hadamard.h"

namespace nibble::ops::cpu {

/// How keys and values are stored. Integers are asymmetric, with a range for each vector (one head
/// of one token): x = smallest + step * code, as in KIVI (arXiv 2402.02750) by tokens and in Atom
/// (arXiv 2310.19102, section 4.3).
enum class KvType { kF32, kF16, kInt8, kInt4 };

/// How keys are stored and how values are. Keys bear rounding worse: their errors pass through an
/// exponential.
struct KvTypes {
  KvType keys = KvType::kF16;
  KvType values = KvType::kF16;
  KvTypes() = default;
  constexpr KvTypes(KvType both) : keys(both), values(both) {}
  constexpr KvTypes(KvType k, KvType v) : keys(k), values(v) {}
  friend bool operator==(const KvTypes&, const KvTypes&) = default;
};

/// "f32", "f16", "int8" or "int4" for both, or keys and values as in "int8-int4"; throws kUsage for
/// anything else.
KvTypes parse_kv_types(std::string_view text);

/// Keys or values of one KV head: vectors of head_dim elements, one for each position.
struct KvView {
  KvType type = KvType::kF32;
  const void* data = nullptr;            // the first vector
  std::int64_t stride = 0;               // elements from one vector to the next
  const core::Fp16* steps = nullptr;     // kInt8 and kInt4: the ranges, one for each vector
  const core::Fp16* smallest = nullptr;  // null for floats, as steps
};

/// Keys and values of one sequence for all layers: all keys, then all values; for each layer and KV
/// head [capacity, head_dim]. Positions are appended in order; memory is what the types say. 4-bit
/// codes lie two in a byte, the first in the low nibble, and are those of the vector times a
/// Hadamard matrix, where one of that size exists: it leaves no element much larger than the others
/// (QuaRot, arXiv 2404.00456, section 4). Queries must be turned like keys, and results turned back
/// like values.
class KvCache {
 public:
  /// Throws kUsage for kInt4 and an odd head_dim.
  KvCache(KvTypes types, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
          std::int64_t capacity);

  KvTypes types() const { return types_; }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t head_dim() const { return head_dim_; }

  KvView keys(std::int64_t layer, std::int64_t kv_head) const {
    return view(keys_, layer * kv_heads_ + kv_head);
  }
  KvView values(std::int64_t layer, std::int64_t kv_head) const {
    return view(values_, layer * kv_heads_ + kv_head);
  }

  /// Writes one position of one head: vectors of head_dim floats.
  void store(std::int64_t layer, std::int64_t kv_head, std::int64_t position, const float* key,
             const float* value);

  /// By what keys, or values, are multiplied before they are rounded; null: by nothing.
  const formats::Hadamard* key_turn() const { return turn_of(types_.keys); }
  const formats::Hadamard* value_turn() const { return turn_of(types_.values); }

  static std::int64_t bytes(KvTypes types, std::int64_t layers, std::int64_t kv_heads,
                            std::int64_t head_dim, std::int64_t capacity);

 private:
  // All keys or all values. A plane is one KV head of one layer.
  struct Half {
    KvType type = KvType::kF32;
    core::Fp16* steps = nullptr;     // [planes, capacity], only of integers
    core::Fp16* smallest = nullptr;  // the same
    std::byte* vectors = nullptr;
  };

  const formats::Hadamard* turn_of(KvType type) const {
    return type == KvType::kInt4 && turn_ ? &*turn_ : nullptr;
  }
  KvView view(const Half& half, std::int64_t plane) const;
  void store_vector(const Half& half, std::int64_t plane, std::int64_t position, const float* x);
  void store_integers(const Half& half, std::int64_t at, std::byte* vector, const float* x);

  KvTypes types_;
  std::int64_t kv_heads_;
  std::int64_t head_dim_;
  std::int64_t capacity_;
  std::optional<formats::Hadamard> turn_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  Half keys_;
  Half values_;
};

}  // namespace nibble::ops::cpu
