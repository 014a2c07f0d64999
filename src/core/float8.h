#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace nibble::core {

/// E4M3 (OCP 8-bit floating point, revision 1.0; arXiv 2209.05433, table 1): a sign, 4 bits of
/// exponent (bias 7), 3 of mantissa; subnormals are multiples of 2^-9; no infinity; NaN is 0x7f
/// with either sign.
struct E4m3 {
  std::uint8_t bits = 0;
  friend bool operator==(E4m3, E4m3) = default;
};

/// Exact: float16 could hold every value too.
constexpr float to_float(E4m3 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x80u) << 24;
  const std::uint32_t magnitude = value.bits & 0x7fu;
  if (magnitude == 0x7f) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  if (magnitude < 8) {  // zero and subnormals
    const float subnormal = static_cast<float>(magnitude) * 0x1p-9f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(subnormal) | sign);
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

/// Rounds to nearest, ties to even. What is larger than 448, infinity too, becomes 448 with its
/// sign; NaN becomes 0x7f.
constexpr E4m3 to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 24 & 0x80u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return E4m3{0x7f};
  }
  if (magnitude >= 0x43e00000u) {  // from 448 on
    return E4m3{static_cast<std::uint8_t>(sign | 0x7eu)};
  }
  if (magnitude < 0x3c800000u) {  // below 2^-6: adding 2^14 aligns the last bit to 2^-9
    const float aligned = std::bit_cast<float>(magnitude) + 0x1p14f;
    return E4m3{
        static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x46800000u))};
  }
  const std::uint32_t rounding = 0x7ffffu + (magnitude >> 20 & 1u);
  return E4m3{static_cast<std::uint8_t>(sign | (magnitude + rounding - (120u << 23)) >> 20)};
}

}  // namespace nibble::core
