#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/gemm/weight_fragments.cuh"

namespace nibble::ops::cuda {

/// How gemm_mma.cuh multiplies what a policy of weight_fragments.cuh gives: here bytes and float16.
template <class Codes>
struct MmaOperands {
  static constexpr int kTokenBytes = 128;  // of a token, in a step
  static constexpr int kProducts = 4;      // of a step
  static constexpr bool kTails = true;     // whether a unit of INT8 may follow
  using Left = Fragments;
  struct ZeroSums {};  // what sums must be corrected by
  static constexpr bool kZeros = false;

  /// sums[16][8] += left[16][32 bytes] right[32 bytes][8].
  __device__ static __forceinline__ void multiply(int (&sums)[4], const std::uint32_t (&left)[4],
                                                  std::uint32_t right0, std::uint32_t right1) {
    mma_s8(sums, left, right0, right1);
  }
  __device__ static __forceinline__ void multiply(float (&sums)[4], const std::uint32_t (&left)[4],
                                                  std::uint32_t right0, std::uint32_t right1) {
    mma_f16(sums, left, right0, right1);
  }
};

}  // namespace nibble::ops::cuda
