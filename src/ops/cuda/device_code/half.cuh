#pragma once

#include <cstdint>

#include <cuda_bf16.h>
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

/// Two floats as bfloat16, the first in the low half.
__device__ __forceinline__ std::uint32_t bfloat162(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// Where a column lies in a row of float16 in tile order (input_target.h).
__device__ __forceinline__ int half_tile_position(int column) {
  const int i = column % 4;
  return column / 32 * 32 + 16 * (column % 8 / 4) + 2 * (column % 32 / 8) + (i & 1) + 8 * (i >> 1);
}

__device__ __forceinline__ float2 float2_of(std::uint32_t halves) {
  return __half22float2(*reinterpret_cast<const __half2*>(&halves));
}

}  // namespace nibble::ops::cuda
