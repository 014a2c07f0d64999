#pragma once

#include <cstdint>

/// How floats that share a scale become integers, step by step as ops/cpu/packed/quantize_row.h
/// has it: no multiplication may be contracted with an addition.
namespace nibble::ops::cuda {

inline constexpr std::int32_t kAbsMask = 0x7fffffff;
inline constexpr std::int32_t kInfinityBits = 0x7f800000;
inline constexpr float kRoundingShift = 12582912.0f;  // 1.5 * 2^23
inline constexpr std::int32_t kRoundingShiftBits = 0x4b400000;
inline constexpr float kTiny = 3.7615819e-37f;       // 2^-121
inline constexpr float kTinyRange = 6.0185311e-36f;  // 2^-117

inline constexpr std::int32_t kWideBase = 255;
inline constexpr std::int32_t kWideTop = 255 * 127 + 127;
inline constexpr float kTinyWide = 1.9259299e-34f;  // 2^-112

struct Coder {
  float scale = 0.0f;
  float inverse = 0.0f;  // 0: all codes are 0
  std::int32_t offset = 0;
  std::int32_t low = 0;
  std::int32_t high = 0;
  std::int32_t zero = 0;
};

/// Largest magnitude, and the ends of the range as places among all floats; 0 is always in it.
struct Spread {
  std::int32_t magnitude = 0;
  std::int32_t low = 0;
  std::int32_t high = 0;
};

__device__ __forceinline__ std::int32_t place_of(std::int32_t bits) {
  return bits ^ ((bits >> 31) & kAbsMask);
}

/// Without the ends where they are not asked for.
__device__ __forceinline__ void widen(Spread& spread, float value, bool symmetric) {
  const std::int32_t bits = __float_as_int(value);
  spread.magnitude = max(spread.magnitude, bits & kAbsMask);
  if (!symmetric) {
    spread.low = min(spread.low, place_of(bits));
    spread.high = max(spread.high, place_of(bits));
  }
}

__device__ __forceinline__ Coder symmetric_coder(int bits, float clip, float largest) {
  if (bits == 16) {
    if (largest < kTinyWide) {
      return {};
    }
    return {__fdiv_rn(largest, kWideTop), __fdiv_rn(kWideTop, largest), 0, -kWideTop, kWideTop, 0};
  }
  const float reach = __fmul_rn(clip, largest);
  if (reach < kTiny) {
    return {};
  }
  const std::int32_t top = (1 << (bits - 1)) - 1;
  const auto steps = static_cast<float>(top);
  return {__fdiv_rn(reach, steps), __fdiv_rn(steps, reach), 0, bits == 8 ? -127 : -top - 1, top, 0};
}

__device__ __forceinline__ Coder asymmetric_coder(int bits, float clip, const Spread& spread) {
  const float smallest = spread.low < 0 ? __int_as_float(place_of(spread.low)) : 0.0f;
  const float low = __fmul_rn(clip, smallest);
  const float high = __fmul_rn(clip, __int_as_float(place_of(spread.high)));
  if (__fsub_rn(high, low) < kTinyRange) {
    return {};
  }
  const std::int32_t last_code = (1 << bits) - 1;
  const auto last = static_cast<float>(last_code);
  const float scale = __fsub_rn(__fdiv_rn(high, last), __fdiv_rn(low, last));
  const float inverse = __fdiv_rn(1.0f, scale);
  const float shifted = __fadd_rn(__fmul_rn(-low, inverse), kRoundingShift);
  const std::int32_t zero = __float_as_int(shifted) - kRoundingShiftBits;
  if (bits != 8) {
    return {scale, inverse, 0, -zero, last_code - zero, 0};
  }
  return {scale, inverse, zero - 128, -128, 127, zero - 128};
}

__device__ __forceinline__ Coder coder_of(int bits, bool symmetric, float clip,
                                          const Spread& spread) {
  if (spread.magnitude >= kInfinityBits) {
    Coder broken;
    broken.scale = __int_as_float(0x7fc00000);
    return broken;
  }
  return symmetric ? symmetric_coder(bits, clip, __int_as_float(spread.magnitude))
                   : asymmetric_coder(bits, clip, spread);
}

__device__ __forceinline__ std::int32_t code_of(const Coder& coder, float value) {
  if (coder.inverse == 0.0f) {
    return 0;
  }
  const float shifted = __fadd_rn(__fmul_rn(value, coder.inverse), kRoundingShift);
  const std::int32_t code = __float_as_int(shifted) - (kRoundingShiftBits - coder.offset);
  return min(max(code, coder.low), coder.high);
}

/// The digits of a code of 16 bits: 255 * first + second, both in [-127, 127].
struct Digits {
  std::int32_t first;
  std::int32_t second;

  __device__ explicit Digits(std::int32_t code) {
    const float digit =
        __fadd_rn(__fmul_rn(static_cast<float>(code), 1.0f / kWideBase), kRoundingShift);
    first = __float_as_int(digit) - kRoundingShiftBits;
    second = code - kWideBase * first;
  }
};

}  // namespace nibble::ops::cuda
