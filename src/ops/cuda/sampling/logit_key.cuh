#pragma once

#include <cstdint>

#include "ops/ranked_token.h"

/// Logits as integers of one order: that of the largest logit, then of the lowest column.
namespace nibble::ops::cuda {

using LogitKey = unsigned long long;

inline constexpr LogitKey kNanKey = ~0ull;  // NaN comes before all else
inline constexpr LogitKey kNoKey = 0;       // comes behind all of logits

__device__ __forceinline__ LogitKey key_of(float value, std::uint32_t column) {
  if (value != value) {
    return kNanKey;
  }
  const std::uint32_t bits = __float_as_uint(value + 0.0f);  // -0 becomes 0
  const std::uint32_t place = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return static_cast<LogitKey>(place) << 32 | (0xfffffffeu - column);
}

/// Id -1 for NaN.
__device__ __forceinline__ RankedToken token_of(LogitKey key) {
  const auto place = static_cast<std::uint32_t>(key >> 32);
  const float logit = __uint_as_float(place ^ ((place >> 31) != 0 ? 0x80000000u : 0xffffffffu));
  const auto column = static_cast<std::int32_t>(0xfffffffeu - static_cast<std::uint32_t>(key));
  return {key == kNanKey ? -1 : column, logit};
}

}  // namespace nibble::ops::cuda
