#pragma once

#include <cstdint>

#include "core/float16.h"
#include "core/float8.h"
#include "ops/cpu/attention/kv_view.h"
#include "ops/cpu/vector/scratch.h"

/// Keys and values that are floats, as float32.
namespace nibble::ops::cpu {

inline const float* f32_row(const KvView& view, std::int64_t j) {
  return static_cast<const float*>(view.data) + j * view.stride;
}
inline const core::Fp16* f16_row(const KvView& view, std::int64_t j) {
  return static_cast<const core::Fp16*>(view.data) + j * view.stride;
}
/// Of values.
inline const core::E4m3* fp8_row(const KvView& view, std::int64_t j) {
  return static_cast<const core::E4m3*>(view.data) + j * view.stride;
}
/// Values, or keys side by side.
inline const core::E4m3* fp8_codes(const KvView& view) {
  return static_cast<const core::E4m3*>(view.data);
}

/// Vectors as float32, contiguous or where they lie.
struct FloatRows {
  const float* data;
  std::int64_t stride;
  const float* row(std::int64_t j) const { return data + j * stride; }
};

/// Values, or keys that are not FP8, of positions [begin, end); not of integers. In `scratch` where
/// they do not lie so.
FloatRows widen_values(const KvPages& vectors, std::int64_t begin, std::int64_t end,
                       std::int64_t head_dim, Scratch& scratch);

/// Keys of positions [begin, end), `begin` being the first of a page; not of integers.
FloatRows widen_keys(const KvPages& keys, std::int64_t begin, std::int64_t end,
                     std::int64_t head_dim, Scratch& scratch);

}  // namespace nibble::ops::cpu
