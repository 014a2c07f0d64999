#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/float8.h"

namespace nibble::formats {

/// E4M3 (core/float8.h) without a sign, the scale type of NVFP4.
inline constexpr std::uint8_t kE4m3Nan = 0x7f;
inline constexpr std::uint8_t kE4m3Largest = 0x7e;
inline constexpr float kE4m3Max = 448.0f;

/// The value of a byte, 0 to kE4m3Largest. An fp16 value can hold each.
constexpr float e4m3_to_float(std::uint8_t byte) {
  return core::to_float(core::E4m3{byte});
}

/// The byte nearest to `value` (not negative, not NaN), ties to the even mantissa; from 448 on it
/// saturates.
inline std::uint8_t nearest_e4m3(double value) {
  constexpr int kMinExponent = -6;
  constexpr int kMantissaBits = 3;
  const double magnitude = std::min(value, static_cast<double>(kE4m3Max));
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), kMinExponent) : kMinExponent;
  // Steps of the binade; 16 of them are the first value of the next one.
  const auto steps =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent)));
  return static_cast<std::uint8_t>((exponent - kMinExponent) * 8 + steps);
}

}  // namespace nibble::formats
