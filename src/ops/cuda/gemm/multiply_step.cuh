#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/gemm/weight_fragments.cuh"

namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Begins the products of a step, 128 bytes of k: `left` are 64 rows, `right` is the address of
/// rows of the right operand, 128 bytes each. `add`: to what sums hold.
template <typename Sum, int kSums>
__device__ __forceinline__ void multiply_step(Sum (&sums)[kSums], Fragments& left,
                                              std::uint32_t right, bool add) {
  const std::uint64_t description = describe_operand(right);
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    settle(left[i / 4][i % 4]);
  }
  begin_products();
#pragma unroll
  for (int product = 0; product < 4; ++product) {
    multiply(sums, left[product], description + 2 * product, add || product > 0);
  }
  commit_products();
}

#endif

}  // namespace nibble::ops::cuda
