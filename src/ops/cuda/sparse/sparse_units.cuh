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

/// A lane's part of a unit: two blocks.
struct LaneUnit {
  uint4 codes;
  uint2 words;

  /// Of a unit in shared memory.
  __device__ __forceinline__ static LaneUnit of_stage(const std::byte* unit, int lane) {
    return {*reinterpret_cast<const uint4*>(unit + lane * 16),
            *reinterpret_cast<const uint2*>(unit + kSparseUnitWords + lane * 8)};
  }
};

}  // namespace nibble::ops::cuda
