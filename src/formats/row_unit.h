#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/float16.h"

namespace nibble::formats {

/// Scales of 7 bits: a sign (bit 6) and how many times the row's unit, 1 to 63. A unit is the upper
/// byte of an fp16 value behind its sign (5 bits of exponent, 3 of mantissa), so that each of its
/// multiples is exactly an fp16 value.
inline constexpr int kUnitScaleBits = 7;
inline constexpr int kMaxUnits = 63;
inline constexpr std::uint8_t kLargestUnit = 200;  // 1024: 63 times it is still an fp16 value

/// The value of a unit's byte, 1 to kLargestUnit.
constexpr float unit_value(std::uint8_t unit) {
  return core::to_float(core::Fp16{static_cast<std::uint16_t>(unit << 7)});
}

/// The smallest unit of which `largest` is at most 63; the nearest there is when none is.
inline std::uint8_t unit_for(double largest) {
  const double wanted = std::abs(largest) / kMaxUnits;
  std::uint8_t unit = 1;
  while (unit < kLargestUnit && static_cast<double>(unit_value(unit)) < wanted) {
    ++unit;
  }
  return unit;
}

/// The 7 bits of the multiple of a unit that is nearest to `scale`, never zero; zero counts as
/// positive.
inline std::uint8_t units_of(double scale, float unit) {
  const double units = std::nearbyint(std::abs(scale) / static_cast<double>(unit));
  const auto count = static_cast<std::uint8_t>(std::clamp(units, 1.0, double{kMaxUnits}));
  return static_cast<std::uint8_t>(scale < 0 ? count | 64 : count);
}

/// The scale that 7 bits stand for.
constexpr float scale_of_units(std::uint8_t bits, float unit) {
  const float magnitude = static_cast<float>(bits & kMaxUnits) * unit;
  return (bits & 64) != 0 ? -magnitude : magnitude;
}

}  // namespace nibble::formats
