#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/elementwise/activated.cuh"
#include "ops/cuda/gemm/gemm.h"

/// What the stores of tiles do alike to write HalfOutput. A lane 4 g + t has rows g and g + 8 of
/// 16, `lower` and `upper`, of tokens 8 j + 2 t + c as values 2 j + c. Of pairs that is gate and
/// up.
namespace nibble::ops::cuda {

/// Two floats as float16, the first in the low half, cut to +-65504. NaN stays.
__device__ __forceinline__ std::uint32_t cut_half2(float low, float high) {
  const __half2 most = __float2half2_rn(65504.0f);
  const __half2 cut = __hmax2_nan(__hmin2_nan(__floats2half2_rn(low, high), most), __hneg2(most));
  return *reinterpret_cast<const std::uint32_t*>(&cut);
}

/// Calls `put(round, pairs)` once where rows come in pairs, else for the lower and for the upper
/// rows. Eight columns of eight tokens at a time have been transposed: pair number j has columns
/// 2 t and 2 t + 1 of eight, of token 8 j + g. All lanes of a warp must call it. Rounds are a loop,
/// so that the code of activations is there once.
template <int kCount, class Put>
__device__ __forceinline__ void put_halves(const HalfOutput& output, float (&lower)[kCount],
                                           float (&upper)[kCount], Put&& put) {
  const int rounds = output.pairs ? 1 : 2;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    if (output.activation) {
      activate_all(*output.activation, lower);
    }
    std::uint32_t pairs[kCount / 2];
#pragma unroll
    for (int j = 0; j < kCount / 2; ++j) {
      const float first = output.pairs ? lower[2 * j] * upper[2 * j] : lower[2 * j];
      const float second = output.pairs ? lower[2 * j + 1] * upper[2 * j + 1] : lower[2 * j + 1];
      pairs[j] = transposed(cut_half2(first, second));
    }
    put(round, pairs);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      lower[i] = upper[i];
    }
  }
}

/// Of 16 rows from `first_row` on: the first of the two columns that a lane has in a round.
__device__ __forceinline__ int half_column(const HalfOutput& output, int first_row, int round,
                                           int lane) {
  return (output.pairs ? first_row / 2 : first_row + 8 * round) + lane % 4 * 2;
}

/// Where it lies in a row.
__device__ __forceinline__ int half_position(const HalfOutput& output, int column) {
  return output.tiles ? half_tile_position(column) : column;
}

/// One result y of a row. In loops that are none in the machine code, that of activations is long.
__device__ __forceinline__ void put_half(const HalfOutput& output, int token, int row, float y) {
  const float value = output.activation ? activated(*output.activation, y) : y;
  auto* const to = static_cast<std::uint16_t*>(output.values) + token * output.stride;
  to[half_position(output, row)] = static_cast<std::uint16_t>(cut_half2(value, 0.0f));
}

}  // namespace nibble::ops::cuda
