#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/wgmma.cuh"

/// Products of a warpgroup (wgmma.cuh) of E4M3 numbers. They are summed in float32, of which the
/// hardware keeps about 14 bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.2).
namespace nibble::ops::cuda {

/// A sum of such products: which type sums have says what is multiplied.
struct E4m3Sum {
  float value;
  __device__ explicit operator float() const { return value; }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

#define NIBBLE_E4M3_SUM(i) "+f"(sums[i].value)
#define NIBBLE_MULTIPLY_E4M3(columns, count, l0, l1, l2, l3, right_, added, more)                \
  __device__ __forceinline__ void multiply(E4m3Sum(&sums)[count], const std::uint32_t(&left)[4], \
                                           std::uint64_t right, bool add) {                      \
    asm volatile(NIBBLE_WGMMA_TEXT(#columns "k32.f32.e4m3.e4m3", count, l0, l1, l2, l3, right_,  \
                                   added, ", 1, 1")                                              \
                 : NIBBLE_SUMS_##count(NIBBLE_E4M3_SUM)                                          \
                 : NIBBLE_WGMMA_OPERANDS);                                                       \
  }
NIBBLE_EACH_WGMMA(NIBBLE_MULTIPLY_E4M3)

#endif

}  // namespace nibble::ops::cuda
