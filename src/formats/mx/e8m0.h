#pragma once

#include <bit>
#include <cstdint>

namespace nibble::formats {

/// E8M0, the scale type of OCP microscaling formats (OCP MX v1.0, section 5.4.1): 2^(byte - 127),
/// byte 255 is NaN.
inline constexpr int kE8m0Bias = 127;
inline constexpr std::uint8_t kE8m0Nan = 255;

/// Largest exponent with which every E2M1 value (at most 6) is a finite float32.
inline constexpr int kMaxMxExponent = 125;
inline constexpr int kMinMxExponent = -127;

constexpr float e8m0_to_float(std::uint8_t byte) {
  if (byte == kE8m0Nan) {
    return std::bit_cast<float>(0x7fc00000u);
  }
  if (byte == 0) {
    return std::bit_cast<float>(0x00400000u);  // 2^-127 is subnormal in binary32
  }
  return std::bit_cast<float>(std::uint32_t{byte} << 23);
}

}  // namespace nibble::formats
