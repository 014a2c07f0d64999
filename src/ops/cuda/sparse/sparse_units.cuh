#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/sparse/sparse_layout.h"

/// Units of block-sparse rows (sparse_layout.h) as lanes read them.
namespace nibble::ops::cuda {

__device__ __forceinline__ std::uint32_t index_of(std::uint32_t word) {
  return word & ((1u << kIndexBits) - 1);
}
__device__ __forceinline__ std::uint32_t zero_of(std::uint32_t word) {
  return word >> kZeroShift & 15u;
}
__device__ __forceinline__ float scale_of(std::uint32_t word) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(word >> kScaleShift)));
}

/// A lane's part of a unit: two blocks. Each is read once, past the L1 cache.
struct LaneUnit {
  uint4 codes;
  uint2 words;

  __device__ __forceinline__ void load(const std::byte* unit, int lane) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(codes.x), "=r"(codes.y), "=r"(codes.z), "=r"(codes.w)
                 : "l"(unit + lane * 16));
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(words.x), "=r"(words.y)
                 : "l"(unit + kSparseUnitWords + lane * 8));
  }
};

}  // namespace nibble::ops::cuda
