#pragma once

#include <cstdint>

/// Reductions over the threads of a warp. All 32 lanes take part and all get the result; the order
/// of additions is fixed.
namespace nibble::ops::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Over the whole warp, or over runs of `lanes` lanes, a power of two: combine(value, another's).
template <typename T, typename Combine>
__device__ __forceinline__ T over_warp(T value, const Combine& combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}
template <typename T, typename Combine>
__device__ __forceinline__ T over_lanes(T value, int lanes, const Combine& combine) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

__device__ __forceinline__ float warp_sum(float value) {
  return over_warp(value, [](float a, float b) { return a + b; });
}

__device__ __forceinline__ float warp_max(float value) {
  return over_warp(value, [](float a, float b) { return fmaxf(a, b); });
}

/// Over runs of `lanes` lanes, a power of two.
__device__ __forceinline__ std::int32_t lanes_max(std::int32_t value, int lanes) {
  return lanes == kWarp
             ? __reduce_max_sync(kAllLanes, value)
             : over_lanes(value, lanes, [](std::int32_t a, std::int32_t b) { return max(a, b); });
}

__device__ __forceinline__ std::int32_t lanes_min(std::int32_t value, int lanes) {
  return lanes == kWarp
             ? __reduce_min_sync(kAllLanes, value)
             : over_lanes(value, lanes, [](std::int32_t a, std::int32_t b) { return min(a, b); });
}

}  // namespace nibble::ops::cuda
