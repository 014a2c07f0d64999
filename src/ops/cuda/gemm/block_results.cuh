#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/divided/wire_memory.cuh"
#include "ops/cuda/gemm/gemm.h"

/// What the stores of tiles do alike to write BlockOutput.
namespace nibble::ops::cuda {

/// Where the blocks of a sum go.
class BlockPlaces {
 public:
  __device__ BlockPlaces(const BlockOutput& output, int rows)
      : output_(output),
        there_(output.there + (*output.sum & 1) * output.place),
        of_token_(rows / kWireBlock) {}

  /// Eight rows from `row` on, by their bits.
  __device__ void put(int token, int row, const std::uint32_t (&bits)[kWireBlock]) const {
    const std::int64_t at = std::int64_t{token} * of_token_ + row / kWireBlock;
    const WireBlock block = to_wire_block(bits);
    if (output_.kept.has(token)) {
      output_.here[at] = block;
    }
    if (output_.sent.has(token)) {
      put_block(there_ + at, block);
    }
  }

 private:
  const BlockOutput& output_;
  WireBlock* there_;
  int of_token_;
};

/// Of eight values of each of the eight lanes 4 g + t that have the same t: lane g gets value
/// number g of all of them, in their order. All lanes of a warp must call it.
__device__ __forceinline__ void exchange_rows(std::uint32_t (&values)[kWireBlock]) {
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4;
#pragma unroll
  for (int step = 1; step < kWireBlock; step *= 2) {
    const bool upper = (g & step) != 0;
#pragma unroll
    for (int i = 0; i < kWireBlock; ++i) {
      if ((i & step) != 0) {
        continue;
      }
      const std::uint32_t sent = upper ? values[i] : values[i + step];
      const std::uint32_t got = __shfl_xor_sync(kAllLanes, sent, 4 * step);
      values[i] = upper ? got : values[i];
      values[i + step] = upper ? values[i + step] : got;
    }
  }
}

}  // namespace nibble::ops::cuda
