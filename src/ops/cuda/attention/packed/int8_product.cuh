#pragma once

#include <cstdint>

#include "ops/cuda/attention/packed/int8_rows.cuh"
#include "ops/cuda/attention/packed/packed_rows.cuh"

namespace nibble::ops::cuda::packed {

/// Scores of a warp's 16 queries as products of 8-bit integers (after SageAttention, arXiv
/// 2410.02367): every query and every key has a scale of its own.
template <int D>
class Int8Product {
 public:
  static constexpr int kDim = D;
  static constexpr bool kRounds = true;  // keys must be rounded by round_rows() first

  /// Rounds the queries in the warp's 16 rows in shared memory, then takes them.
  __device__ __forceinline__ void load_queries(std::byte* rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    round_rows<D, 16, 32>(rows, 16, lane);
    __syncwarp();
    const std::uint32_t at = shared_address(rows) + lane % 16 * kRowBytes<D> + lane / 16 * 16;
#pragma unroll
    for (int part = 0; part < D / 32; ++part) {
      load_matrices(queries_[part], at + 32 * part);
    }
    units_[0] = unit_of_row<D>(shared_address(rows), lane / 4);
    units_[1] = unit_of_row<D>(shared_address(rows), lane / 4 + 8);
    __syncwarp();
  }

  template <bool kWhole>
  __device__ __forceinline__ void multiply(std::uint32_t keys, int count, Scores& scores) const {
    const std::uint32_t at = keys + matrix_row<D>();
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int block = 0; block < kStepKeys / 16; ++block) {
      std::int32_t sums[2][4] = {};
      float units[2][2] = {};  // of keys 2t and 2t + 1, then 8 behind them
      if (kWhole || block * 16 < count) {
#pragma unroll
        for (int part = 0; part < D / 32; ++part) {
          std::uint32_t words[4];
          load_matrices(words, at + block * 16 * kRowBytes<D> + 32 * part);
          multiply_codes(sums[0], queries_[part], words[0], words[1]);
          multiply_codes(sums[1], queries_[part], words[2], words[3]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          units[i / 2][i % 2] = unit_of_row<D>(keys, block * 16 + i / 2 * 8 + column + i % 2);
        }
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        scores[2 * block + e / 4][e % 4] =
            static_cast<float>(sums[e / 4][e % 4]) * units[e / 4][e % 2];
      }
    }
  }

  __device__ __forceinline__ float unit(int row) const {
    return units_[row];
  }

 private:
  std::uint32_t queries_[D / 32][4];
  float units_[2];
};

}  // namespace nibble::ops::cuda::packed
