#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/elementwise/coder.cuh"
#include "ops/cuda/elementwise/matrix_view.h"
#include "ops/cuda/gemm/gemm.h"

/// What the stores of tiles do alike to write CodeOutput.
namespace nibble::ops::cuda {

/// Where column number `column` of INT8 stands in a row in tile order (input_target.h).
__device__ __forceinline__ int code_position(int column) {
  const int i = column % 4;
  return column / 32 * 32 + 16 * (column % 8 / 4) + 4 * (column % 32 / 8) + 2 * (i % 2) + i / 2;
}

/// Codes of numbers that are float16, by one scale; and whether one of them was where float16 ends.
class ResultCoder {
 public:
  __device__ explicit ResultCoder(const CodeOutput& output)
      : output_(output), coder_(given_coder(output.bits, output.scale, {})) {}

  /// Of two float16: the lowest bytes. What lies outside of the matrix does not count.
  __device__ uint2 codes(std::uint32_t halves, bool counts) {
    ends_ |= counts ? ends_of_range(halves) : 0;
    const float2 values = float2_of(halves);
    return {static_cast<std::uint32_t>(cut_code_of(coder_, values.x)),
            static_cast<std::uint32_t>(cut_code_of(coder_, values.y))};
  }
  __device__ void note() const {
    if ((ends_ & 0x80008000u) != 0 && output_.saturated != nullptr) {
      *output_.saturated = 1;
    }
  }

 private:
  const CodeOutput& output_;
  Coder coder_;
  std::uint32_t ends_ = 0;
};

/// Fills in the scales of `count` tokens, one thread of `threads` after the other.
__device__ __forceinline__ void put_scales(const CodeOutput& output, int first, int count,
                                           int tokens, int thread, int threads) {
  for (int i = thread; i < count && first + i < tokens; i += threads) {
    output.scales[first + i] = output.scale;
  }
}

/// Codes of an 8 x 8 matrix of tokens, of 16 columns that a warp has. `lower` and `upper`: two
/// codes of columns g and g + 8, of tokens 2 t and 2 t + 1 in lane 4 g + t. Returned: four codes as
/// they lie in tile order, from column 8 (t % 2) + 4 (t / 2) on, of token g.
__device__ __forceinline__ std::uint32_t turned_codes(uint2 lower, uint2 upper) {
  const std::uint32_t first = __byte_perm(lower.x, upper.x, 0x0040);
  const std::uint32_t second = __byte_perm(lower.y, upper.y, 0x0040);
  const std::uint32_t mine = transposed(__byte_perm(first, second, 0x5410));
  const std::uint32_t other = __shfl_xor_sync(0xffffffff, mine, 1);
  return __byte_perm(mine, other, threadIdx.x % 2 == 0 ? 0x6240 : 0x3715);
}

}  // namespace nibble::ops::cuda
