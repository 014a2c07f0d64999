#pragma once

#include <cstdint>

#include "ops/cuda/attention/fragments.cuh"
#include "ops/cuda/attention/packed/packed_rows.cuh"

namespace nibble::ops::cuda::packed {

/// Scores of a warp's 16 queries as products of float16.
template <int D>
class HalfProduct {
 public:
  static constexpr int kDim = D;
  static constexpr bool kRounds = false;

  /// Queries from the warp's 16 rows in shared memory.
  __device__ __forceinline__ void load_queries(std::byte* rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t at = shared_address(rows) + lane % 16 * kRowBytes<D> + lane / 16 * 16;
#pragma unroll
    for (int part = 0; part < D / 16; ++part) {
      load_matrices(queries_[part].r, at + 32 * part);
    }
  }

  /// With the first `count` keys of a step, or 16 at a time more.
  template <bool kWhole>
  __device__ __forceinline__ void multiply(std::uint32_t keys, int count, Scores& scores) const {
    const std::uint32_t at = keys + matrix_row<D>();
    clear(scores);
#pragma unroll
    for (int part = 0; part < D / 16; ++part) {
#pragma unroll
      for (int block = 0; block < kStepKeys / 16; ++block) {
        if (kWhole || block * 16 < count) {
          std::uint32_t words[4];
          load_matrices(words, at + block * 16 * kRowBytes<D> + 32 * part);
          multiply_add(scores[2 * block], queries_[part], words[0], words[1]);
          multiply_add(scores[2 * block + 1], queries_[part], words[2], words[3]);
        }
      }
    }
  }

  /// What scores of row g, or of row g + 8, have to be multiplied by.
  __device__ __forceinline__ float unit(int /*row*/) const {
    return 1.0f;
  }

 private:
  Tile queries_[D / 16];
};

}  // namespace nibble::ops::cuda::packed
