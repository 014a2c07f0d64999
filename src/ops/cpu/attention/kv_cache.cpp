#include "ops/cpu/attention/kv_cache.h"

#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {

KvType parse_kv_type(std::string_view text) {
  if (text == "f32") {
    return KvType::kF32;
  }
  if (text == "f16") {
    return KvType::kF16;
  }
  core::fail(core::ErrorKind::kUsage, "KV cache type '{}' is not known; use f16 or f32",
             core::printable(text));
}

std::int64_t KvCache::bytes(KvType type, std::int64_t layers, std::int64_t kv_heads,
                            std::int64_t head_dim, std::int64_t capacity) {
  return 2 * layers * kv_heads * head_dim * capacity * (type == KvType::kF32 ? 4 : 2);
}

KvCache::KvCache(KvType type, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
                 std::int64_t capacity)
    : type_(type),
      layers_(layers),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      capacity_(capacity),
      element_bytes_(type == KvType::kF32 ? 4 : 2),
      memory_(nullptr, std::free) {
  const std::int64_t size = bytes(type, layers, kv_heads, head_dim, capacity);
  memory_.reset(static_cast<std::byte*>(
      std::aligned_alloc(64, static_cast<std::size_t>(size + 64) / 64 * 64)));
  core::require(memory_ != nullptr, core::ErrorKind::kOutOfMemory,
                "cannot allocate {} bytes of KV cache for {} tokens; ask for a shorter context",
                size, capacity);
}

std::byte* KvCache::at(std::int64_t layer, std::int64_t kv_head, std::int64_t which) {
  const std::int64_t plane = (layer * kv_heads_ + kv_head) * 2 + which;
  return memory_.get() + plane * capacity_ * head_dim_ * element_bytes_;
}

void KvCache::store(std::int64_t layer, std::int64_t kv_head, std::int64_t position,
                    const float* key, const float* value) {
  const std::int64_t offset = position * head_dim_;
  if (type_ == KvType::kF32) {
    const auto size = static_cast<std::size_t>(head_dim_) * sizeof(float);
    std::memcpy(static_cast<float*>(keys(layer, kv_head)) + offset, key, size);
    std::memcpy(static_cast<float*>(values(layer, kv_head)) + offset, value, size);
    return;
  }
  const VectorKernels& kernels = vector_kernels();
  kernels.narrow_f16(key, static_cast<core::Fp16*>(keys(layer, kv_head)) + offset, head_dim_);
  kernels.narrow_f16(value, static_cast<core::Fp16*>(values(layer, kv_head)) + offset, head_dim_);
}

}  // namespace nibble::ops::cpu
