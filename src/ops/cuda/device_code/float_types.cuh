#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// Numbers of the float types as float32, and back, rounded to nearest.
namespace nibble::ops::cuda {

__device__ __forceinline__ float as_float(float x) {
  return x;
}
__device__ __forceinline__ float as_float(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float as_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

__device__ __forceinline__ void store(float* to, float value) {
  *to = value;
}
__device__ __forceinline__ void store(__half* to, float value) {
  *to = __float2half_rn(value);
}
__device__ __forceinline__ void store(__nv_bfloat16* to, float value) {
  *to = __float2bfloat16_rn(value);
}

}  // namespace nibble::ops::cuda
