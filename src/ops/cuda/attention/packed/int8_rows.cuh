#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_fp16.h>

#include "ops/cuda/attention/packed/packed_rows.cuh"
#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// Rows of heads that are rounded in their place in shared memory: D codes, then what one of them
/// stands for.
namespace nibble::ops::cuda::packed {

inline constexpr int kLanesOfRow = 4;

/// Largest magnitude of eight float16; NaN once one of them is.
__device__ __forceinline__ __half2 larger(__half2 largest, const uint4& eight) {
  const std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
  for (const std::uint32_t word : words) {
    largest = __hmax2_nan(largest, __habs2(*reinterpret_cast<const __half2*>(&word)));
  }
  return largest;
}

__device__ __forceinline__ std::uint32_t code_byte(float value, int place) {
  return (static_cast<std::uint32_t>(__float2int_rn(value)) & 255u) << (8 * place);
}

/// Four float16 as codes.
__device__ __forceinline__ std::uint32_t codes_of(std::uint32_t first, std::uint32_t second,
                                                  float inverse) {
  const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&first));
  const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&second));
  return code_byte(a.x * inverse, 0) | code_byte(a.y * inverse, 1) | code_byte(b.x * inverse, 2) |
         code_byte(b.y * inverse, 3);
}

/// Rounds the first `needed` of kRows rows, a multiple of 16, each with a scale of its own: its
/// largest magnitude is code 127. kThreads call, whole warps, each with its number.
template <int D, int kRows, int kThreads>
__device__ __forceinline__ void round_rows(std::byte* rows, int needed, int thread) {
  constexpr int kEach = D / 8 / kLanesOfRow;
  static_assert(D % 32 == 0, "a lane has whole runs of eight");
  const int part = thread % kLanesOfRow;
#pragma unroll
  for (int first = 0; first < kRows; first += kThreads / kLanesOfRow) {
    const int row = first + thread / kLanesOfRow;
    if (row / 16 * 16 < needed) {  // so it is for all of a warp
      std::byte* const at = rows + row * kRowBytes<D>;
      uint4 values[kEach];
      __half2 largest = __float2half2_rn(0.0f);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        values[i] = reinterpret_cast<const uint4*>(at)[part * kEach + i];
        largest = larger(largest, values[i]);
      }
      largest = __hmax2_nan(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = __hmax2_nan(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      const float magnitude = __half2float(__hmax_nan(__low2half(largest), __high2half(largest)));
      const float inverse = magnitude == 0.0f ? 0.0f : 127.0f / magnitude;
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        reinterpret_cast<uint2*>(at)[part * kEach + i] = {
            codes_of(values[i].x, values[i].y, inverse),
            codes_of(values[i].z, values[i].w, inverse)};
      }
      if (part == 0) {  // of zeros any will do, but for 0: it makes NaN of hidden scores
        *reinterpret_cast<float*>(at + D) = magnitude == 0.0f ? 1.0f : magnitude / 127.0f;
      }
    }
  }
}

/// What code 1 of a rounded row stands for.
template <int D>
__device__ __forceinline__ float unit_of_row(std::uint32_t rows, int row) {
  return load_float(rows + row * kRowBytes<D> + D);
}

}  // namespace nibble::ops::cuda::packed
