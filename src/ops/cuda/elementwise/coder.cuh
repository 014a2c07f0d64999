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

/// The product, rounded to an integer, which its lowest bits are: a number near kRoundingShift.
__device__ __forceinline__ float shifted_product(float value, float factor) {
  return __fadd_rn(__fmul_rn(value, factor), kRoundingShift);
}

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

__device__ __forceinline__ void widen(Spread& spread, float4 values, bool symmetric) {
  widen(spread, values.x, symmetric);
  widen(spread, values.y, symmetric);
  widen(spread, values.z, symmetric);
  widen(spread, values.w, symmetric);
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
  const float shifted = shifted_product(-low, inverse);
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
  const float shifted = shifted_product(value, coder.inverse);
  const std::int32_t code = __float_as_int(shifted) - (kRoundingShiftBits - coder.offset);
  return min(max(code, coder.low), coder.high);
}

/// What is added to codes of at most 4 bits, which are less their zero already, so that 4 bits
/// hold them with a sign: the zero less 8, where there is one.
__device__ __forceinline__ std::int32_t int4_shift(const Coder& coder, bool symmetric) {
  return symmetric ? 0 : -coder.low - 8;
}

/// Of a scale that stands with the layer, where all of the row is finite. What it does not reach is
/// cut (cut_code_of).
__device__ __forceinline__ Coder given_coder(int bits, float scale, const Spread& spread) {
  const std::int32_t top = (1 << (bits - 1)) - 1;
  if (spread.magnitude >= kInfinityBits) {
    return {__int_as_float(0x7fc00000), 0.0f, 0, 0, 0, 0};
  }
  return {scale, __fdiv_rn(1.0f, scale), 0, bits == 8 ? -127 : -top - 1, top, 0};
}

/// As code_of(), of products that may be far beyond the codes, where adding kRoundingShift would
/// not round: they are cut before it.
__device__ __forceinline__ std::int32_t cut_code_of(const Coder& coder, float value) {
  if (coder.inverse == 0.0f) {
    return 0;
  }
  const float product = __fmul_rn(value, coder.inverse);
  const float cut =
      fminf(fmaxf(product, static_cast<float>(coder.low)), static_cast<float>(coder.high));
  return __float_as_int(__fadd_rn(cut, kRoundingShift)) - kRoundingShiftBits;
}

/// Whether reciprocals of a magnitude, and quotients of kWideTop, are far from the ends of the
/// range.
__device__ __forceinline__ bool is_moderate(float magnitude) {
  return magnitude > 1e-18f && magnitude < 1e18f;
}

/// a / b, correctly rounded, of moderate numbers (J.-M. Muller et al., Handbook of Floating-Point
/// Arithmetic, section 4.7): without the branch of __fdiv_rn, so that several go side by side.
__device__ __forceinline__ float moderate_quotient(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  inverse = __fmaf_rn(__fmaf_rn(-b, inverse, 1.0f), inverse, inverse);
  float quotient = __fmul_rn(a, inverse);
  quotient = __fmaf_rn(__fmaf_rn(-b, quotient, a), inverse, quotient);
  return __fmaf_rn(__fmaf_rn(-b, quotient, a), inverse, quotient);
}

/// The coder of symmetric codes of 16 bits; `largest` as Spread has it.
__device__ __forceinline__ Coder wide_coder(std::int32_t largest) {
  const float magnitude = __int_as_float(largest);
  if (is_moderate(magnitude)) {
    return {moderate_quotient(magnitude, kWideTop),
            moderate_quotient(kWideTop, magnitude),
            0,
            -kWideTop,
            kWideTop,
            0};
  }
  return coder_of(16, true, 1.0f, {largest, 0, 0});
}

/// Four bytes: the lowest of each word, those of the second and the third swapped.
__device__ __forceinline__ std::uint32_t lowest_bytes(float a, float b, float c, float d) {
  const std::uint32_t even = __byte_perm(__float_as_uint(a), __float_as_uint(c), 0x0040);
  const std::uint32_t odd = __byte_perm(__float_as_uint(b), __float_as_uint(d), 0x0040);
  return __byte_perm(even, odd, 0x5410);
}

/// The digits of four codes of 16 bits, 255 * first + second, both in [-127, 127], in the order 0,
/// 2, 1, 3. The codes are code_of()'s: no magnitude is beyond the largest, so they need no bounds.
/// Numbers near kRoundingShift hold an integer in their lowest bits.
struct FourDigits {
  std::uint32_t first = 0;
  std::uint32_t second = 0;

  __device__ __forceinline__ FourDigits(float4 value, float inverse) {
    if (inverse == 0.0f) {
      return;
    }
    const float4 codes = {shifted_product(value.x, inverse), shifted_product(value.y, inverse),
                          shifted_product(value.z, inverse), shifted_product(value.w, inverse)};
    const float4 high = {of_code(codes.x), of_code(codes.y), of_code(codes.z), of_code(codes.w)};
    first = lowest_bytes(high.x, high.y, high.z, high.w);
    second = lowest_bytes(rest(codes.x, high.x), rest(codes.y, high.y), rest(codes.z, high.z),
                          rest(codes.w, high.w));
  }

 private:
  __device__ static float of_code(float code) {
    return shifted_product(code - kRoundingShift, 1.0f / kWideBase);
  }
  __device__ static float rest(float code, float digit) {
    return __fmaf_rn(-static_cast<float>(kWideBase), digit - kRoundingShift, code);
  }
};

}  // namespace nibble::ops::cuda
