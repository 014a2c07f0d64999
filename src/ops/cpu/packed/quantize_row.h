#pragma once

#include <cstdint>

#include "ops/cpu/packed/variants.h"

/// Activation quantization of one token. Plain loops that each instruction set's file compiles (and
/// the compiler vectorizes) for itself, in an unnamed namespace so that each keeps its own copy.
/// Needs -ffp-contract=off: a fused multiply-add would round differently.
namespace nibble::ops::cpu {
namespace {

constexpr std::int32_t kAbsMask = 0x7fffffff;
constexpr std::int32_t kInfinityBits = 0x7f800000;
constexpr std::int32_t kNanBits = 0x7fc00000;
// Adding 1.5 * 2^23 rounds a float of magnitude below 2^22 to an integer, ties to even, and leaves
// that integer in the low bits.
constexpr float kRoundingShift = 12582912.0f;
constexpr std::int32_t kRoundingShiftBits = 0x4b400000;
constexpr float kTiny = 3.7615819e-37f;  // 2^-121: 127 / kTiny is still finite

inline std::int32_t bits_of(float value) {
  return __builtin_bit_cast(std::int32_t, value);
}
inline float float_of(std::int32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// Bits of the largest magnitude. As integers NaN > infinity > every finite value.
inline std::int32_t absmax_bits(const float* x, std::int64_t count) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t magnitude = bits_of(x[i]) & kAbsMask;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

/// Codes of x * inverse, and their sum.
inline std::int32_t encode(const float* x, std::int64_t count, float inverse, std::int8_t* codes) {
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float shifted = x[i] * inverse + kRoundingShift;
    const std::int32_t code = bits_of(shifted) - kRoundingShiftBits;
    codes[i] = static_cast<std::int8_t>(code);
    sum += code;
  }
  return sum;
}

struct Scale {
  float scale = 0.0f;
  float inverse = 0.0f;  // 0: all codes are 0
};

inline Scale scale_of(std::int32_t largest_bits) {
  if (largest_bits >= kInfinityBits) {
    return {float_of(kNanBits), 0.0f};
  }
  const float largest = float_of(largest_bits);
  if (largest < kTiny) {
    return {0.0f, 0.0f};
  }
  return {largest / 127.0f, 127.0f / largest};
}

inline void quantize_group(const float* x, std::int64_t count, std::int64_t stride, Scale scale,
                           std::int8_t* codes, std::int32_t* sum) {
  std::int64_t written = 0;
  *sum = 0;
  if (scale.inverse != 0.0f) {
    *sum = encode(x, count, scale.inverse, codes);
    written = count;
  }
  for (; written < stride; ++written) {
    codes[written] = 0;
  }
}

void quantize_row(const RowToQuantize& row) {
  Scale scale;
  if (row.per_token) {
    scale = scale_of(absmax_bits(row.x, row.k));
  }
  std::int64_t g = 0;
  for (std::int64_t begin = 0; begin < row.k; begin += row.group, ++g) {
    const std::int64_t left = row.k - begin;
    const std::int64_t count = left < row.group ? left : row.group;
    if (!row.per_token) {
      scale = scale_of(absmax_bits(row.x + begin, count));
    }
    row.scales[g] = scale.scale;
    quantize_group(row.x + begin, count, row.group_stride, scale, row.codes + g * row.group_stride,
                   row.sums + g);
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
