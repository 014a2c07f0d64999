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

struct KvRange {
  core::Fp16 step;
  core::Fp16 smallest;
};

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

// Without ranges for floats.
std::int64_t half_bytes(KvType type, std::int64_t vectors, std::int64_t head_dim) {
  const auto range = static_cast<std::int64_t>(is_integer(type) ? 2 * sizeof(core::Fp16) : 0);
  return vectors * (vector_bytes(type, head_dim) + range);
}

std::optional<KvType> type_of(std::string_view name) {
  constexpr std::pair<std::string_view, KvType> kTypes[] = {{"f32", KvType::kF32},
                                                            {"f16", KvType::kF16},
                                                            {"int8", KvType::kInt8},
                                                            {"int4", KvType::kInt4}};
  for (const auto& [known, type] : kTypes) {
    if (name == known) {
      return type;
    }
  }
  return std::nullopt;
}

constexpr std::int64_t kLine = 64;

std::int64_t round_up(std::int64_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

KvTypes parse_kv_types(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto keys = type_of(text.substr(0, dash));
  const auto values = dash == std::string_view::npos ? keys : type_of(text.substr(dash + 1));
  core::require(keys && values, core::ErrorKind::kUsage,
                "KV cache type '{}' is not known; use f16, f32, int8 or int4, or types of keys and "
                "values such as int8-int4",
                core::printable(text));
  return {*keys, *values};
}

std::int64_t KvCache::bytes(KvTypes types, std::int64_t layers, std::int64_t kv_heads,
                            std::int64_t head_dim, std::int64_t capacity) {
  const std::int64_t vectors = layers * kv_heads * capacity;
  return half_bytes(types.keys, vectors, head_dim) + half_bytes(types.values, vectors, head_dim);
}

KvCache::KvCache(KvTypes types, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
                 std::int64_t capacity)
    : types_(types),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      capacity_(capacity),
      memory_(nullptr, std::free) {
  const bool nibbles = types.keys == KvType::kInt4 || types.values == KvType::kInt4;
  core::require(!nibbles || head_dim % 2 == 0, core::ErrorKind::kUsage,
                "heads of {} elements do not fill bytes with 4-bit codes; use the KV cache type "
                "int8 or f16",
                head_dim);
  if (nibbles && formats::hadamard_exists(head_dim)) {
    turn_.emplace(head_dim);
  }
  const std::int64_t vectors = layers * kv_heads * capacity;
  const std::int64_t key_bytes = round_up(half_bytes(types.keys, vectors, head_dim));
  const std::int64_t size = key_bytes + round_up(half_bytes(types.values, vectors, head_dim));
  memory_.reset(static_cast<std::byte*>(
      std::aligned_alloc(kLine, static_cast<std::size_t>(std::max(size, kLine)))));
  core::require(memory_ != nullptr, core::ErrorKind::kOutOfMemory,
                "cannot allocate {} bytes of KV cache for {} tokens; ask for a shorter context",
                size, capacity);
  const auto place = [&](KvType type, std::byte* memory) {
    auto* steps = reinterpret_cast<core::Fp16*>(memory);
    return is_integer(type) ? Half{type, steps, steps + vectors,
                                   reinterpret_cast<std::byte*>(steps + 2 * vectors)}
                            : Half{type, nullptr, nullptr, memory};
  };
  keys_ = place(types.keys, memory_.get());
  values_ = place(types.values, memory_.get() + key_bytes);
}

KvView KvCache::view(const Half& half, std::int64_t plane) const {
  const std::int64_t first = plane * capacity_;
  KvView view{half.type, half.vectors + first * vector_bytes(half.type, head_dim_), head_dim_};
  if (is_integer(half.type)) {
    view.steps = half.steps + first;
    view.smallest = half.smallest + first;
  }
  return view;
}

void KvCache::store_vector(const Half& half, std::int64_t plane, std::int64_t position,
                           const float* x) {
  const std::int64_t at = plane * capacity_ + position;
  std::byte* vector = half.vectors + at * vector_bytes(half.type, head_dim_);
  switch (half.type) {
    case KvType::kF32:
      std::memcpy(vector, x, static_cast<std::size_t>(head_dim_) * sizeof(float));
      return;
    case KvType::kF16:
      vector_kernels().narrow_f16(x, reinterpret_cast<core::Fp16*>(vector), head_dim_);
      return;
    case KvType::kInt8:
    case KvType::kInt4:
      return store_integers(half, at, vector, x);
  }
}

void KvCache::store_integers(const Half& half, std::int64_t at, std::byte* vector, const float* x) {
  thread_local std::vector<float> turned;
  thread_local std::vector<std::uint8_t> codes;
  turned.assign(x, x + head_dim_);
  codes.resize(turned.size());
  if (const formats::Hadamard* turn = turn_of(half.type)) {
    turn->apply(std::span<float>(turned));
  }
  const KvRange range =
      encode(turned.data(), head_dim_, half.type == KvType::kInt8 ? 255 : 15, codes.data());
  half.steps[at] = range.step;
  half.smallest[at] = range.smallest;
  if (half.type == KvType::kInt8) {
    std::memcpy(vector, codes.data(), codes.size());
    return;
  }
  for (std::size_t i = 0; i < codes.size(); i += 2) {
    vector[i / 2] = static_cast<std::byte>(codes[i] | codes[i + 1] << 4);
  }
}

void KvCache::store(std::int64_t layer, std::int64_t kv_head, std::int64_t position,
                    const float* key, const float* value) {
  const std::int64_t plane = layer * kv_heads_ + kv_head;
  store_vector(keys_, plane, position, key);
  store_vector(values_, plane, position, value);
}

}  // namespace nibble::ops::cpu
