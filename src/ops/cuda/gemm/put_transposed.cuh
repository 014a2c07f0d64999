#pragma once

#include <cstdint>

#include <cuda_runtime.h>

namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// Writes four 8 x 8 matrices of float16 transposed to shared memory. Of each, lane 4g + t has row
/// g, columns 2t and 2t + 1; lane l gives the address of 16 bytes for column l % 8 of matrix l / 8.
__device__ __forceinline__ void put_transposed(std::uint32_t address,
                                               const std::uint32_t (&matrices)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
      : "memory");
}

#endif

}  // namespace nibble::ops::cuda
