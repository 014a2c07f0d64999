#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/gemm/weight_fragments.cuh"

/// The scales of rows of a layer whose rows have one each.
namespace nibble::ops::cuda {

/// Those of rows g and g + 8 of the 16 from `row` on, as the first unit has them. They become
/// numbers later, so that nothing waits for them before the products.
template <class Codes>
__device__ __forceinline__ __half2 row_scales_of(const GemmArguments& a, int row, int lane) {
  const std::int64_t group = row / static_cast<int>(kUnitRows);
  if (group >= a.row_groups) {
    return {};
  }
  const std::uint8_t* tile =
      a.units + group * a.body_units * 4 * a.tile_bytes +
      row % static_cast<int>(kUnitRows) / static_cast<int>(kTileRows) * a.tile_bytes;
  return global_scales_of(tile, Codes::kCodeBytes, lane / 4);
}

/// What sums of the two rows are multiplied by.
template <class Codes>
__device__ __forceinline__ float2 scale_numbers(const GemmArguments& a, __half2 scales) {
  const float2 both = __half22float2(scales);
  const float factor = Codes::scale_factor(a);
  return {both.x * factor, both.y * factor};  // by a power of 2
}

}  // namespace nibble::ops::cuda
