#include "ops/cpu/attention/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

bool is_integer(KvType type) {
  return type == KvType::kInt8 || type == KvType::kInt4;
}

std::int64_t vector_bytes(KvType type, std::int64_t head_dim) {
  switch (type) {
    case KvType::kF32:
      return head_dim * 4;
    case KvType::kF16:
      return head_dim * 2;
    case KvType::kInt8:
      return head_dim;
    case KvType::kInt4:
      return head_dim / 2;
  }
  return 0;
}

// Codes of a vector, one byte each, and the range that they count in. A vector with NaN or infinite
// elements gets a range that is not finite, so that what reads it is not finite either.
KvRange encode(const float* x, std::int64_t n, int levels, std::uint8_t* codes) {
  float smallest = x[0];
  float largest = x[0];
  bool finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    smallest = std::min(smallest, x[i]);
    largest = std::max(largest, x[i]);
    finite = finite && std::isfinite(x[i]);
  }
  KvRange range;
  range.smallest = core::to_fp16(finite ? smallest : std::nanf(""));
  const float from = core::to_float(range.smallest);
  range.step = core::to_fp16((largest - from) / static_cast<float>(levels));
  const float step = core::to_float(range.step);
  const float inverse = step > 0 ? 1.0f / step : 0.0f;
  for (std::int64_t i = 0; i < n; ++i) {
    const float code = finite ? std::nearbyint((x[i] - from) * inverse) : 0.0f;
    codes[i] = static_cast<std::uint8_t>(std::clamp(code, 0.0f, static_cast<float>(levels)));
  }
  return range;
}

}  // namespace

KvType parse_kv_type(std::string_view text) {
  constexpr std::pair<std::string_view, KvType> kTypes[] = {{"f32", KvType::kF32},
                                                            {"f16", KvType::kF16},
                                                            {"int8", KvType::kInt8},
                                                            {"int4", KvType::kInt4}};
  for (const auto& [name, type] : kTypes) {
    if (text == name) {
      return type;
    }
  }
  core::fail(core::ErrorKind::kUsage, "KV cache type '{}' is not known; use f16, f32, int8 or int4",
             core::printable(text));
}

std::int64_t KvCache::bytes(KvType type, std::int64_t layers, std::int64_t kv_heads,
                            std::int64_t head_dim, std::int64_t capacity) {
  const auto range = static_cast<std::int64_t>(is_integer(type) ? sizeof(KvRange) : 0);
  return 2 * layers * kv_heads * capacity * (vector_bytes(type, head_dim) + range);
}

KvCache::KvCache(KvType type, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
                 std::int64_t capacity)
    : type_(type),
      layers_(layers),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      capacity_(capacity),
      memory_(nullptr, std::free) {
  core::require(type != KvType::kInt4 || head_dim % 2 == 0, core::ErrorKind::kUsage,
                "heads of {} elements do not fill bytes with 4-bit codes; use the KV cache type "
                "int8 or f16",
                head_dim);
  if (type == KvType::kInt4 && formats::hadamard_exists(head_dim)) {
    turn_.emplace(head_dim);
  }
  const std::int64_t size = bytes(type, layers, kv_heads, head_dim, capacity);
  memory_.reset(static_cast<std::byte*>(
      std::aligned_alloc(64, static_cast<std::size_t>(size + 64) / 64 * 64)));
  core::require(memory_ != nullptr, core::ErrorKind::kOutOfMemory,
                "cannot allocate {} bytes of KV cache for {} tokens; ask for a shorter context",
                size, capacity);
}

KvRange* KvCache::ranges(std::int64_t plane) const {
  return is_integer(type_) ? reinterpret_cast<KvRange*>(memory_.get()) + plane * capacity_
                           : nullptr;
}

std::byte* KvCache::vectors(std::int64_t plane) const {
  const std::int64_t planes = 2 * layers_ * kv_heads_;
  std::byte* first =
      is_integer(type_) ? reinterpret_cast<std::byte*>(ranges(planes)) : memory_.get();
  return first + plane * capacity_ * vector_bytes(type_, head_dim_);
}

KvView KvCache::view(std::int64_t layer, std::int64_t kv_head, std::int64_t which) const {
  const std::int64_t at = plane(layer, kv_head, which);
  return {type_, vectors(at), head_dim_, ranges(at)};
}

void KvCache::store_vector(std::int64_t plane, std::int64_t position, const float* x) {
  std::byte* vector = vectors(plane) + position * vector_bytes(type_, head_dim_);
  switch (type_) {
    case KvType::kF32:
      std::memcpy(vector, x, static_cast<std::size_t>(head_dim_) * sizeof(float));
      return;
    case KvType::kF16:
      vector_kernels().narrow_f16(x, reinterpret_cast<core::Fp16*>(vector), head_dim_);
      return;
    case KvType::kInt8:
      ranges(plane)[position] = encode(x, head_dim_, 255, reinterpret_cast<std::uint8_t*>(vector));
      return;
    case KvType::kInt4:
      return store_int4(plane, position, x);
  }
}

void KvCache::store_int4(std::int64_t plane, std::int64_t position, const float* x) {
  thread_local std::vector<float> turned;
  thread_local std::vector<std::uint8_t> codes;
  turned.assign(x, x + head_dim_);
  if (turn_) {
    turn_->apply(std::span<float>(turned));
  }
  codes.resize(turned.size());
  ranges(plane)[position] = encode(turned.data(), head_dim_, 15, codes.data());
  std::byte* vector = vectors(plane) + position * vector_bytes(type_, head_dim_);
  for (std::size_t i = 0; i < codes.size(); i += 2) {
    vector[i / 2] = static_cast<std::byte>(codes[i] | codes[i + 1] << 4);
  }
}

void KvCache::store(std::int64_t layer, std::int64_t kv_head, std::int64_t position,
                    const float* key, const float* value) {
  store_vector(plane(layer, kv_head, 0), position, key);
  store_vector(plane(layer, kv_head, 1), position, value);
}

}  // namespace nibble::ops::cpu
