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

/// "f32", "f16", "int8" or "int4"; throws kUsage for anything else.
KvType parse_kv_type(std::string_view text);

/// The range of a vector of integers, both stored in 16 bits.
struct KvRange {
  core::Fp16 step;
  core::Fp16 smallest;
};

/// Keys or values of one KV head: vectors of head_dim elements, one for each position.
struct KvView {
  KvType type = KvType::kF32;
  const void* data = nullptr;       // the first vector
  std::int64_t stride = 0;          // elements from one vector to the next
  const KvRange* ranges = nullptr;  // kInt8 and kInt4: one for each vector
};

/// Keys and values of one sequence for all layers: for each layer and KV head K then V, each
/// [capacity, head_dim]. Positions are appended in order; memory is what the type says. 4-bit codes
/// lie two in a byte, the first in the low nibble, and are those of the vector times a Hadamard
/// matrix, where one of that size exists: it leaves no element much larger than the others (QuaRot,
/// arXiv 2404.00456, section 4). Queries must be turned like keys, and results turned back.
class KvCache {
 public:
  /// Throws kUsage for kInt4 and an odd head_dim.
  KvCache(KvType type, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
          std::int64_t capacity);

  KvType type() const { return type_; }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t head_dim() const { return head_dim_; }

  KvView keys(std::int64_t layer, std::int64_t kv_head) const { return view(layer, kv_head, 0); }
  KvView values(std::int64_t layer, std::int64_t kv_head) const { return view(layer, kv_head, 1); }

  /// Writes one position of one head: vectors of head_dim floats.
  void store(std::int64_t layer, std::int64_t kv_head, std::int64_t position, const float* key,
             const float* value);

  /// By what vectors are multiplied before they are rounded; null: by nothing.
  const formats::Hadamard* turn() const { return turn_ ? &*turn_ : nullptr; }

  static std::int64_t bytes(KvType type, std::int64_t layers, std::int64_t kv_heads,
                            std::int64_t head_dim, std::int64_t capacity);

 private:
  std::int64_t plane(std::int64_t layer, std::int64_t kv_head, std::int64_t which) const {
    return (layer * kv_heads_ + kv_head) * 2 + which;
  }
  std::byte* vectors(std::int64_t plane) const;
  KvRange* ranges(std::int64_t plane) const;
  KvView view(std::int64_t layer, std::int64_t kv_head, std::int64_t which) const;
  void store_vector(std::int64_t plane, std::int64_t position, const float* x);
  void store_int4(std::int64_t plane, std::int64_t position, const float* x);

  KvType type_;
  std::int64_t layers_;
  std::int64_t kv_heads_;
  std::int64_t head_dim_;
  std::int64_t capacity_;
  std::optional<formats::Hadamard> turn_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;  // ranges of all planes, then all vectors
};

}  // namespace nibble::ops::cpu
