#pragma once

#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/elementwise/coder.cuh"

namespace nibble::ops::cuda {

/// The spread of all threads' values, on every thread; for blocks of at most kMostThreads threads,
/// a multiple of a warp. To be called once in a kernel.
template <int kMostThreads>
__device__ Spread spread_of_block(const Spread& mine) {
  __shared__ Spread warps[kMostThreads / kWarp];
  const auto reduce = [](const Spread& each) {
    return Spread{__reduce_max_sync(kAllLanes, each.magnitude),
                  __reduce_min_sync(kAllLanes, each.low), __reduce_max_sync(kAllLanes, each.high)};
  };
  const Spread warp = reduce(mine);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) {
    warps[threadIdx.x / kWarp] = warp;
  }
  __syncthreads();
  return reduce(lane < static_cast<int>(blockDim.x) / kWarp ? warps[lane] : Spread{});
}

}  // namespace nibble::ops::cuda
