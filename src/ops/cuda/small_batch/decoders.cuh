#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/packed/book_table.cuh"

/// From stored codes to the left operand of mma_s8: a few lines for each kind of code.
namespace nibble::ops::cuda {

/// What a lane holds of one tile.
template <int kVectors>
struct TileWords {
  uint4 vectors[kVectors];

  __device__ static TileWords load(const std::byte* tile, int lane) {
    TileWords words;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      words.vectors[i] = *reinterpret_cast<const uint4*>(tile + i * 512 + lane * 16);
    }
    return words;
  }
  /// The same from an address in shared memory.
  __device__ static TileWords load_shared(std::uint32_t tile, int lane) {
    TileWords words;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      uint4& v = words.vectors[i];
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "r"(tile + i * 512 + lane * 16));
    }
    return words;
  }
  __device__ std::uint32_t at(int i) const {
    const uint4& v = vectors[i / 4];
    return i % 4 == 0 ? v.x : i % 4 == 1 ? v.y : i % 4 == 2 ? v.z : v.w;
  }
};

/// INT4. A byte of a word holds q of row g below and q - 8 of row g + 8, signed, above it. Row g is
/// masked; row g + 8 is multiplied with the other below it, 16 (q - 8) + q', whose share is then
/// taken away again: one instruction for eight weights.
struct Int4Decoder {
  static constexpr int kCodeBytes = 1024;
  static constexpr bool kHasTable = false;
  static constexpr int kOperands = 1;
  static constexpr float kUpperUnit = 1.0f / 16;
  struct Rows {};
  using Words = TileWords<2>;

  /// The operands for inputs 32 h .. 32 h + 31.
  __device__ static void decode(const Words& words, int h, const Rows&,
                                std::uint32_t (&a)[kOperands][4]) {
    a[0][0] = words.at(2 * h) & 0x0f0f0f0fu;
    a[0][1] = words.at(2 * h);
    a[0][2] = words.at(2 * h + 1) & 0x0f0f0f0fu;
    a[0][3] = words.at(2 * h + 1);
  }

  /// From products of both rows to sums of (q - zero) x, those of the upper row 16 times too large.
  /// `x` is the sum of the activations.
  __device__ static void finish(int& lower, int& upper, int zero_of_lower, int zero_of_upper,
                                int x) {
    upper += 16 * (8 - zero_of_upper) * x - lower;
    lower -= zero_of_lower * x;
  }
  static constexpr int kZero = 8;
  static constexpr bool kNeedsSums = true;
};

/// INT8 stands in memory as it is multiplied.
struct Int8Decoder {
  static constexpr float kUpperUnit = 1.0f;
  static constexpr int kZero = 128;
  static constexpr bool kNeedsSums = false;
  static constexpr int kCodeBytes = 2048;
  static constexpr bool kHasTable = false;
  static constexpr int kOperands = 1;
  struct Rows {};
  using Words = TileWords<4>;

  __device__ static void decode(const Words& words, int h, const Rows&,
                                std::uint32_t (&a)[kOperands][4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      a[0][r] = words.at(4 * h + r);
    }
  }

  __device__ static void finish(int& lower, int& upper, int zero_of_lower, int zero_of_upper,
                                int x) {
    lower -= (zero_of_lower - kZero) * x;
    upper -= (zero_of_upper - kZero) * x;
  }
};

/// Code books: entries are sums of what two byte permutations look up (book_table.h). The products
/// with each are added, not the bytes.
struct BookDecoder {
  static constexpr float kUpperUnit = 1.0f;
  static constexpr int kZero = 0;
  static constexpr bool kNeedsSums = false;
  static constexpr int kCodeBytes = 1024;
  static constexpr bool kHasTable = true;
  static constexpr int kOperands = 2;
  struct Rows {
    uint4 lower;  // table of row g
    uint4 upper;  // of row g + 8
  };

  using Words = TileWords<2>;

  __device__ static void decode(const Words& words, int h, const Rows& tables,
                                std::uint32_t (&a)[kOperands][4]) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const std::uint32_t lower = words.at(2 * h + e);
      const std::uint32_t upper = shifted_by_product<16>(lower);
      a[0][2 * e] = permuted(tables.lower.x, tables.lower.y, lower);
      a[1][2 * e] = permuted(tables.lower.z, tables.lower.w, complement(lower));
      a[0][2 * e + 1] = permuted(tables.upper.x, tables.upper.y, upper);
      a[1][2 * e + 1] = permuted(tables.upper.z, tables.upper.w, complement(upper));
    }
  }

  __device__ static void finish(int&, int&, int, int, int) {}

 private:
  // Logic, sums and permutations share a pipe, which bounds this; products have another one. That
  // blocks have one dimension is what the compiler does not know: of a constant it would make a
  // sum.
  __device__ static std::uint32_t complement(std::uint32_t bits) {
    std::uint32_t result;
    const std::uint32_t minus_one = 0u - blockDim.y;
    asm("mad.lo.u32 %0, %1, %2, %2;" : "=r"(result) : "r"(bits), "r"(minus_one));
    return result;
  }
};

}  // namespace nibble::ops::cuda
