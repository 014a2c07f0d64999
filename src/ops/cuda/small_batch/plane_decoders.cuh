#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/packed/book_table.cuh"
#include "ops/cuda/packed/plane_words.cuh"

/// Decoders (decoders.cuh) of codes of 3 and 2 bits that lie in planes.
namespace nibble::ops::cuda {

/// Integers, as Int4Decoder has them, but row g + 8 is not signed: the product with its bytes is of
/// 16 q + q', the code of row g below it.
template <int kBits>
struct PlaneIntDecoder {
  static constexpr int kCodeBytes = 256 * kBits;
  static constexpr bool kHasTable = false;
  static constexpr int kOperands = 1;
  static constexpr float kUpperUnit = 1.0f / 16;
  static constexpr int kZero = 1 << (kBits - 1);
  static constexpr bool kNeedsSums = true;
  struct Rows {};
  using Words = PlaneWords<kBits>;

  __device__ static void decode(const Words& words, int h, const Rows&,
                                std::uint32_t (&a)[kOperands][4]) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const std::uint32_t both = words.nibbles(h, e);
      a[0][2 * e] = both & 0x0f0f0f0fu;
      a[0][2 * e + 1] = both;
    }
  }

  __device__ static void finish(int& lower, int& upper, int zero_of_lower, int zero_of_upper,
                                int x) {
    upper -= 16 * zero_of_upper * x + lower;
    lower -= zero_of_lower * x;
  }
};

/// Books of 8 or 4 entries: a nibble selects one of the first bytes of a row's table, which are
/// entries as they are.
template <int kBits>
struct PlaneBookDecoder {
  static constexpr int kCodeBytes = 256 * kBits;
  static constexpr bool kHasTable = true;
  static constexpr int kOperands = 1;
  static constexpr float kUpperUnit = 1.0f;
  static constexpr int kZero = 0;
  static constexpr bool kNeedsSums = false;
  struct Rows {
    uint4 lower;  // table of row g
    uint4 upper;  // of row g + 8
  };
  using Words = PlaneWords<kBits>;

  __device__ static void decode(const Words& words, int h, const Rows& tables,
                                std::uint32_t (&a)[kOperands][4]) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const std::uint32_t both = words.nibbles(h, e);
      a[0][2 * e] = entries(tables.lower, both);
      a[0][2 * e + 1] = entries(tables.upper, shifted_by_product<16>(both));
    }
  }

  __device__ static void finish(int&, int&, int, int, int) {}

 private:
  __device__ static std::uint32_t entries(const uint4& table, std::uint32_t selectors) {
    return permuted(table.x, kBits == 2 ? table.x : table.y, selectors);
  }
};

}  // namespace nibble::ops::cuda
