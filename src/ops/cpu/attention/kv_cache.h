#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace nibble::ops::cpu {

/// How keys and values are stored.
enum class KvType { kF32, kF16 };

/// "f32" or "f16"; throws kUsage for anything else.
KvType parse_kv_type(std::string_view text);

/// Keys and values of one sequence for all layers: for each layer and KV head K then V, each
/// [capacity, head_dim]. Positions are appended in order; memory is what the type says.
class KvCache {
 public:
  KvCache(KvType type, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
          std::int64_t capacity);

  KvType type() const { return type_; }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t head_dim() const { return head_dim_; }

  /// First position of a head's keys or values; element size by type().
  void* keys(std::int64_t layer, std::int64_t kv_head) { return at(layer, kv_head, 0); }
  void* values(std::int64_t layer, std::int64_t kv_head) { return at(layer, kv_head, 1); }

  /// Writes one position of one head: vectors of head_dim floats.
  void store(std::int64_t layer, std::int64_t kv_head, std::int64_t position, const float* key,
             const float* value);

  static std::int64_t bytes(KvType type, std::int64_t layers, std::int64_t kv_heads,
                            std::int64_t head_dim, std::int64_t capacity);

 private:
  std::byte* at(std::int64_t layer, std::int64_t kv_head, std::int64_t which);

  KvType type_;
  std::int64_t layers_;
  std::int64_t kv_heads_;
  std::int64_t head_dim_;
  std::int64_t capacity_;
  std::int64_t element_bytes_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
};

}  // namespace nibble::ops::cpu
