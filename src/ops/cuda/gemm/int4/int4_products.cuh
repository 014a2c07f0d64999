#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/gemm/int4/int4_operands.h"
#include "ops/cuda/gemm/mma_operands.cuh"

/// Products of 4-bit integers on both sides, for gemm_mma.cuh: weights in units, inputs in
/// kInt4Tiles. Native on devices of compute capability 8; later ones emulate them slowly.
namespace nibble::ops::cuda {

/// Weights of 4 bits as they are, less 8. kZeros_: weights or inputs have zeros.
template <bool kZeros_>
struct NativeInt4 : Int4Codes {
  __device__ static float scale_factor(const GemmArguments&) { return 1.0f; }
  __device__ static void load(Words& to, std::uint32_t tile, int, int lane, const GemmArguments&) {
    to.words[0] = words_of(tile, 0, lane);
    to.words[1] = words_of(tile, 1, lane);
  }
  __device__ static void expand(Int4Left& left, const Words& from, const Rows&,
                                const GemmArguments&) {
    int4_left(left, reinterpret_cast<const std::uint32_t(&)[8]>(from.words));
  }
};

/// Sums of codes alone, by products with ones. Those of tokens are wanted where weights have zeros,
/// those of rows where inputs have.
struct Int4ZeroSums {
  int tokens[4][4];  // of twice eight tokens: each row of a half has the same
  int rows[2][4];    // of a tile: each column has the same

  __device__ void add_tokens(const GemmArguments& a, int column, std::uint32_t right0,
                             std::uint32_t right1) {
    if (a.offset == GroupOffset::kZero) {
      std::uint32_t ones[4];
      int4_ones(ones, column % 2);
      mma_s4(tokens[column / 2], ones, right0, right1);
    }
  }
  __device__ void add_rows(const GemmArguments& a, int tile, const std::uint32_t (&left)[4]) {
    if (a.input_zeros != nullptr) {
      mma_s4(rows[tile], left, kInt4Ones, kInt4Ones);
    }
  }
  /// Sums of two tiles, of so many inputs, become those of what codes stand for. Of the two rows of
  /// a lane row_zeros(tile) has the zeros, in bits 0 to 7 and 8 to 15; of the warp's token number i
  /// token_zero(i) what its codes are more.
  template <class RowZeros, class TokenZero>
  __device__ __forceinline__ void correct(int (&tiles)[2][32], const GemmArguments& a, int lane,
                                          int inputs, RowZeros&& row_zeros,
                                          TokenZero&& token_zero) const {
    const bool zeros = a.offset == GroupOffset::kZero;
    const Int4Shifts shifts[2] = {int4_shifts(zeros ? row_zeros(0) : kInt4NoZeros),
                                  int4_shifts(zeros ? row_zeros(1) : kInt4NoZeros)};
    const auto token = [&](int i) { return i / 4 * 8 + lane % 4 * 2 + i % 2; };
    if (a.input_zeros == nullptr) {
      correct_all(tiles, shifts, inputs, [](int) { return 0; });
    } else {
      correct_all(tiles, shifts, inputs, [&](int i) { return token_zero(token(i)); });
    }
  }

 private:
  template <class Zero>
  __device__ __forceinline__ void correct_all(int (&tiles)[2][32], const Int4Shifts (&shifts)[2],
                                              int inputs, Zero&& zero_of) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int r = i % 4 / 2;
      const int sum_of_inputs = tokens[i / 8][i / 4 % 2 * 2 + i % 2];
      const int zero = zero_of(i);
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        tiles[tile][i] = int4_corrected(tiles[tile][i], rows[tile][2 * r], sum_of_inputs,
                                        shifts[tile].rows[r], zero, inputs);
      }
    }
  }
};

template <bool kZeros_>
struct MmaOperands<NativeInt4<kZeros_>> {
  static constexpr int kTokenBytes = kInt4TokenBytes;
  static constexpr int kProducts = kInt4Products;
  static constexpr bool kTails = false;
  using Left = Int4Left;
  using ZeroSums = Int4ZeroSums;
  static constexpr bool kZeros = kZeros_;

  /// sums[16][8] += left[16][64 codes] right[64 codes][8].
  __device__ static __forceinline__ void multiply(int (&sums)[4], const std::uint32_t (&left)[4],
                                                  std::uint32_t right0, std::uint32_t right1) {
    mma_s4(sums, left, right0, right1);
  }
};

}  // namespace nibble::ops::cuda
