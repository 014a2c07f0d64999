#pragma once

#include <cstdint>

#include "ops/cuda/medium_batch/decoders.cuh"

namespace nibble::ops::cuda {

/// E4M3 as float16 for medium_batch/decoders.cuh, in units of 2^-8: its magnitude stands as the
/// bits of a float16 whose bias is 15, not 7, subnormals too; NaN is never there.
struct HalfE4m3 : SignedDecoder<2048> {
  static constexpr bool kHalf = true;
  static constexpr float kUnit = 256.0f;
  static constexpr float kUpperUnit = kUnit;
  __device__ static void decode(const Words& words, int step, const Rows&, std::uint32_t,
                                std::uint32_t (&a)[4]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::uint32_t word = words.at(2 * step + row);
      a[row] = halves(word << 8);
      a[row + 2] = halves(word);
    }
  }

 private:
  // Of the numbers in the upper bytes of both halves.
  __device__ static std::uint32_t halves(std::uint32_t codes) {
    return (codes & 0x80008000u) | ((codes >> 1) & 0x3f803f80u);
  }
};

}  // namespace nibble::ops::cuda
