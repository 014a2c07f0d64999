#pragma once

#include "formats/fp4/e2m1_doubles.h"
#include "ops/cuda/elementwise/coder.cuh"

/// How floats that share a scale become doubles of E2M1 numbers, which are integers and stand with
/// half of the scale; as coder.cuh.
namespace nibble::ops::cuda {

/// Of doubles of E2M1 numbers (e2m1_code_of), which stand with half of their scale.
__device__ __forceinline__ Coder e2m1_coder(float clip, const Spread& spread) {
  if (spread.magnitude >= kInfinityBits) {
    return coder_of(formats::kE2m1Bits, true, clip, spread);
  }
  const float reach = __fmul_rn(clip, __int_as_float(spread.magnitude));
  if (reach < kTiny) {
    return {};
  }
  constexpr std::int32_t kTop = formats::kE2m1Top;
  constexpr auto kSteps = static_cast<float>(kTop);
  return {__fdiv_rn(reach, kSteps), __fdiv_rn(kSteps, reach), 0, -kTop, kTop, 0};
}

/// As code_of(): steps of 1 up to 4, of 2 up to 8, of 4 up to 12. Adding kRoundingShift times a
/// step rounds to its multiples, ties to the even one.
__device__ __forceinline__ std::int32_t e2m1_code_of(const Coder& coder, float value) {
  if (coder.inverse == 0.0f) {
    return 0;
  }
  const float product = __fmul_rn(value, coder.inverse);
  const std::int32_t doublings = (fabsf(product) > 4.0f ? 1 : 0) + (fabsf(product) > 8.0f ? 1 : 0);
  const float shift = __int_as_float(kRoundingShiftBits + (doublings << 23));
  const float rounded = __fsub_rn(__fadd_rn(product, shift), shift);
  const std::int32_t code = __float_as_int(__fadd_rn(rounded, kRoundingShift)) - kRoundingShiftBits;
  return min(max(code, coder.low), coder.high);
}

}  // namespace nibble::ops::cuda
