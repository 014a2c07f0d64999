#pragma once

#include <cstdint>

namespace nibble::ops::cuda {

/// Calls work(i) for each i < count, over all threads of a grid of one dimension, however many
/// there are.
template <typename Work>
__device__ __forceinline__ void over_grid(std::int64_t count, const Work& work) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    work(i);
  }
}

}  // namespace nibble::ops::cuda
