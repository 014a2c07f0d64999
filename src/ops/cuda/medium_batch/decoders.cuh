#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/small_batch/decoders.cuh"

/// From stored codes to signed bytes, whose products need no correction: a few lines for each kind
/// of code. decode() makes the left operand for inputs 32 h .. 32 h + 31 (mma_s8). kTileBytes are
/// those of a tile with one group: codes, scales and zeros.
namespace nibble::ops::cuda {

/// (bits & mask) ^ flipped, in one instruction.
template <std::uint32_t kMask>
__device__ __forceinline__ std::uint32_t masked_and_flipped(std::uint32_t bits,
                                                            std::uint32_t flipped) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, %4;"
      : "=r"(result)
      : "r"(bits), "n"(kMask), "r"(flipped), "n"((0xf0 & 0xcc) ^ 0xaa));
  return result;
}

/// INT4: 16 (q - 8).
struct SignedInt4 {
  static constexpr int kCodeBytes = 1024;
  static constexpr int kTileBytes = kCodeBytes + 32;
  static constexpr float kUnit = 1.0f / 16;  // of the products
  static constexpr bool kHasTable = false;
  static constexpr bool kZeros = false;
  struct Rows {};
  using Words = TileWords<2>;
  __device__ static void decode(const Words& words, int h, const Rows&, std::uint32_t,
                                std::uint32_t (&a)[4]) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const std::uint32_t word = words.at(2 * h + e);
      a[2 * e] = masked_and_flipped<0xf0f0f0f0u>(word << 4, 0x80808080u);
      a[2 * e + 1] = word & 0xf0f0f0f0u;  // signed already
    }
  }
};

/// INT4 with zeros, those of rows g and g + 8 in bits 0 to 7 and 8 to 15: q - zero.
struct SignedInt4WithZeros {
  static constexpr int kCodeBytes = 1024;
  static constexpr int kTileBytes = kCodeBytes + 32 + 16;
  static constexpr float kUnit = 1.0f;
  static constexpr bool kHasTable = false;
  static constexpr bool kZeros = true;
  struct Rows {};
  using Words = TileWords<2>;
  __device__ static void decode(const Words& words, int h, const Rows&, std::uint32_t zeros,
                                std::uint32_t (&a)[4]) {
    const std::uint32_t lower = (zeros & 0xff) * 0x01010101u;
    const std::uint32_t upper = (zeros >> 8) * 0x01010101u;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const std::uint32_t word = words.at(2 * h + e);
      // 128 + q - zero does not borrow from the next byte.
      a[2 * e] = (masked_and_flipped<0x0f0f0f0fu>(word, 0x80808080u) - lower) ^ 0x80808080u;
      a[2 * e + 1] =
          (masked_and_flipped<0x0f0f0f0fu>(word >> 4, 0x88888888u) - upper) ^ 0x80808080u;
    }
  }
};

struct SignedInt8 {
  static constexpr int kCodeBytes = Int8Decoder::kCodeBytes;
  static constexpr int kTileBytes = kCodeBytes + 32;
  static constexpr float kUnit = 1.0f;
  static constexpr bool kHasTable = false;
  static constexpr bool kZeros = false;
  using Rows = Int8Decoder::Rows;
  using Words = Int8Decoder::Words;
  __device__ static void decode(const Words& words, int h, const Rows&, std::uint32_t,
                                std::uint32_t (&a)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      a[r] = words.at(4 * h + r);
    }
  }
};

struct SignedBook {
  static constexpr int kCodeBytes = BookDecoder::kCodeBytes;
  static constexpr int kTileBytes = kCodeBytes + 32;
  static constexpr float kUnit = 1.0f;
  static constexpr bool kHasTable = true;
  static constexpr bool kZeros = false;
  using Rows = BookDecoder::Rows;
  using Words = BookDecoder::Words;
  __device__ static Rows rows_of(const uint4& lower, const uint4& upper) {
    return {entries_of_table(lower), entries_of_table(upper)};
  }
  __device__ static void decode(const Words& words, int h, const Rows& rows, std::uint32_t,
                                std::uint32_t (&a)[4]) {
    look_up(words.at(2 * h), rows, a[0], a[1]);
    look_up(words.at(2 * h + 1), rows, a[2], a[3]);
  }

 private:
  // Logic, shifts and permutations share a pipe, which bounds this: shifts to the right are
  // products here, and selectors go unmasked into the permutation, since their highest bits are
  // clear.
  __device__ static void look_up(std::uint32_t word, const Rows& rows, std::uint32_t& lower,
                                 std::uint32_t& upper) {
    const std::uint32_t entry = word & 0x77777777u;
    const std::uint32_t half = halves(shifted_by_product<1>(word));
    lower = choose(rows.lower, entry, half);
    upper = choose(rows.upper, shifted_by_product<16>(entry), shifted_by_product<16>(half));
  }

  __device__ static std::uint32_t choose(const uint4& entries, std::uint32_t entry,
                                         std::uint32_t half) {
    return permuted(permuted(entries.x, entries.y, entry), permuted(entries.z, entries.w, entry),
                    half);
  }

  /// Byte i of the first or, where the code's highest bit is set, of the second word.
  __device__ static std::uint32_t halves(std::uint32_t codes_by_two) {
    std::uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, %4;"
        : "=r"(result)
        : "r"(codes_by_two), "n"(0x44444444u), "r"(0x32103210u), "n"((0xf0 & 0xcc) | 0xaa));
    return result;
  }
};

}  // namespace nibble::ops::cuda
