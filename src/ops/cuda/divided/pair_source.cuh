#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/divided/pair_sum.h"
#include "ops/cuda/divided/wire_memory.cuh"
#include "ops/cuda/elementwise/row_sources.cuh"

namespace nibble::ops::cuda {

/// x += the sum of two ranks' parts on the way, in rows of a multiple of 8 columns. Two lanes have
/// the columns of a block: the first reads this rank's, the second awaits the other's, and both
/// exchange what they have.
struct PairSource {
  struct Added {
    Rows x;
  };
  Added added;
  float* sum;  // x itself
  PairSum parts;

  /// What is under way for four columns.
  struct Begun {
    float4 x;
    WireBlock block;
  };

  /// Where the other rank's blocks arrive.
  __device__ WireBlock* place() const { return parts.other + (*parts.number & 1) * parts.place; }

  __device__ Begun begin(const WireBlock* other, std::int64_t row, int column) const {
    if (column >= added.x.columns) {
      return {};
    }
    const std::int64_t at = block_at(row, column);
    return {added.x.load(row, column),
            is_second(column) ? look_at_block(other + at) : parts.mine[at]};
  }

  __device__ float4 finish(WireBlock* other, Begun begun, std::int64_t row, int column) const {
    const bool second = is_second(column);
    const bool inside = column < added.x.columns;
    if (inside && second) {
      take_block(other + block_at(row, column), begun.block, parts.ended);
    }
    WireBlock exchanged;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      exchanged.words[i] = __shfl_xor_sync(kAllLanes, begun.block.words[i], 1);
    }
    if (!inside) {
      return {};
    }
    float a[4];
    float b[4];
    from_wire_block(begun.block, second ? 1 : 0, a);
    from_wire_block(exchanged, second ? 1 : 0, b);
    const float4 value = {begun.x.x + (a[0] + b[0]), begun.x.y + (a[1] + b[1]),
                          begun.x.z + (a[2] + b[2]), begun.x.w + (a[3] + b[3])};
    store_row(sum, added.x, row, column, value);
    return value;
  }

  __device__ float4 load(std::int64_t row, int column) const {
    WireBlock* const other = place();
    return finish(other, begin(other, row, column), row, column);
  }

 private:
  __device__ static bool is_second(int column) {
    return column % kWireBlock != 0;
  }
  __device__ std::int64_t block_at(std::int64_t row, int column) const {
    return (row * added.x.columns + column) / kWireBlock;
  }
};

/// Of rows from `first` on.
inline PairSource pair_source(const PairSum& sum, float* x, std::int64_t first,
                              std::int64_t columns) {
  float* const rows = x + first * columns;
  return {{rows_of(rows, columns, columns)}, rows, sum.from(first * columns)};
}

}  // namespace nibble::ops::cuda
