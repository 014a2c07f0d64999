#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace nibble::ops::cpu {

/// Whether no number is infinite or NaN.
inline bool all_finite(const float* values, std::int64_t count) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff);
  }
  return largest < 0x7f800000;
}

}  // namespace nibble::ops::cpu
