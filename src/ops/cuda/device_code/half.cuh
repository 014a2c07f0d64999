#pragma once

#include <cstdint>

#include <cuda_fp16.h>

namespace nibble::ops::cuda {

/// Cut to +-65504 where it is finite; infinities and NaN stay.
__device__ __forceinline__ float saturated(float value) {
  const float cut = fminf(fmaxf(value, -65504.0f), 65504.0f);
  return fabsf(value) < __int_as_float(0x7f800000) ? cut : value;
}

/// Two floats as float16, the first in the low half.
__device__ __forceinline__ std::uint32_t saturated_half2(float low, float high) {
  const __half2 pair = __floats2half2_rn(saturated(low), saturated(high));
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

__device__ __forceinline__ float2 float2_of(std::uint32_t halves) {
  return __half22float2(*reinterpret_cast<const __half2*>(&halves));
}

}  // namespace nibble::ops::cuda
