#pragma once

#include <bit>
#include <cstdint>

namespace nibble::core {

/// Brain float: the upper 16 bits of an IEEE binary32.
struct Bf16 {
  std::uint16_t bits = 0;
  friend bool operator==(Bf16, Bf16) = default;
};

/// IEEE binary16.
struct Fp16 {
  std::uint16_t bits = 0;
  friend bool operator==(Fp16, Fp16) = default;
};

inline constexpr float kFp16Max = 65504.0f;
inline constexpr float kFp16MinNormal = 6.103515625e-05f;  // 2^-14

constexpr float to_float(float value) {
  return value;
}

constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

constexpr float to_float(Fp16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1f) {  // infinity, NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  }
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24 is exact in binary32
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-08f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

/// Rounds to nearest, ties to even; NaN stays NaN.
constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return Bf16{static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  }
  const std::uint32_t rounding = 0x7fffu + ((bits >> 16) & 1u);
  return Bf16{static_cast<std::uint16_t>((bits + rounding) >> 16)};
}

/// Rounds to nearest, ties to even; overflow becomes infinity, NaN stays NaN.
constexpr Fp16 to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return Fp16{static_cast<std::uint16_t>(sign | 0x7e00u)};
  }
  if (magnitude >= 0x477ff000u) {  // rounds to 2^16 or more
    return Fp16{static_cast<std::uint16_t>(sign | 0x7c00u)};
  }
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal; adding 0.5 aligns the last bit to 2^-24
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return Fp16{
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u))};
  }
  const std::uint32_t rounding = 0xfffu + ((magnitude >> 13) & 1u);
  return Fp16{static_cast<std::uint16_t>(sign | ((magnitude + rounding - 0x38000000u) >> 13))};
}

}  // namespace nibble::core
