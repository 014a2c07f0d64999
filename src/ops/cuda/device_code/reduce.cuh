#pragma once

#include <cstdint>

/// Reductions over the threads of a warp. All 32 lanes take part and all get the result; the order
/// of additions is fixed.
namespace nibble::ops::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

/// Over runs of `lanes` lanes, a power of two.
__device__ __forceinline__ std::int32_t lanes_max(std::int32_t value, int lanes) {
  if (lanes == kWarp) {
    return __reduce_max_sync(kAllLanes, value);
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

__device__ __forceinline__ std::int32_t lanes_min(std::int32_t value, int lanes) {
  if (lanes == kWarp) {
    return __reduce_min_sync(kAllLanes, value);
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = min(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

}  // namespace nibble::ops::cuda
