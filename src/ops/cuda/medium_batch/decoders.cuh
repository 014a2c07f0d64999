#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/small_batch/decoders.cuh"

/// From stored codes to the left operand, whose products need no correction: a few lines for each
/// kind of code. decode() makes what one product takes, number `step`: signed bytes of inputs
/// 32 step .. 32 step + 31 (mma_s8), or, where kHalf, float16 of 16 inputs of 32 (step / 2), those
/// with e = step % 2 (unit_format.h). kTileBytes are those of a tile with one group: codes, scales
/// and zeros. Products of rows g are kUnit, of rows g + 8 kUpperUnit times too small.
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

/// What most decoders to signed bytes have: bytes that are the codes' values, no zeros, and nothing
/// kept of a row.
template <int kCodeBytes_>
struct SignedDecoder {
  static constexpr bool kHalf = false;
  static constexpr bool kHasSums = false;
  static constexpr int kCodeBytes = kCodeBytes_;
  static constexpr int kTileBytes = kCodeBytes + 32;
  static constexpr float kUnit = 1.0f;
  static constexpr float kUpperUnit = 1.0f;
  static constexpr bool kHasTable = false;
  static constexpr bool kZeros = false;
  struct Rows {};
  using Words = TileWords<kCodeBytes / 512>;
};

/// INT4: 16 (q - 8).
struct SignedInt4 : SignedDecoder<1024> {
  static constexpr float kUnit = 1.0f / 16;
  static constexpr float kUpperUnit = kUnit;
  template <class AnyWords>
  __device__ static void decode(const AnyWords& words, int step, const Rows&, std::uint32_t,
                                std::uint32_t (&a)[4]) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const std::uint32_t word = words.at(2 * step + e);
      a[2 * e] = masked_and_flipped<0xf0f0f0f0u>(word << 4, 0x80808080u);
      a[2 * e + 1] = word & 0xf0f0f0f0u;  // signed already
    }
  }
};

/// INT4 with zeros, those of rows g and g + 8 in bits 0 to 7 and 8 to 15: q - zero.
struct SignedInt4WithZeros : SignedDecoder<1024> {
  static constexpr int kTileBytes = kCodeBytes + 32 + 16;
  static constexpr bool kZeros = true;
  template <class AnyWords>
  __device__ static void decode(const AnyWords& words, int step, const Rows&, std::uint32_t zeros,
                                std::uint32_t (&a)[4]) {
    const std::uint32_t lower = (zeros & 0xff) * 0x01010101u;
    const std::uint32_t upper = (zeros >> 8) * 0x01010101u;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const std::uint32_t word = words.at(2 * step + e);
      // 128 + q - zero does not borrow from the next byte.
      a[2 * e] = (masked_and_flipped<0x0f0f0f0fu>(word, 0x80808080u) - lower) ^ 0x80808080u;
      a[2 * e + 1] =
          (masked_and_flipped<0x0f0f0f0fu>(word >> 4, 0x88888888u) - upper) ^ 0x80808080u;
    }
  }
};

/// INT4 as float16, q - zero in units of 2^-24, the least there is: a code in the lowest bits of a
/// float16 is one without an instruction, and tensor cores multiply subnormal numbers as others. Of
/// rows g + 8, whose codes are four bits higher, 2^-20. kHasSums: products are of q, and are added
/// to what the zero makes of the sum of the inputs.
template <bool kZeros_, bool kHasSums_>
struct HalfInt4 {
  static constexpr bool kHalf = true;
  static constexpr bool kHasSums = kHasSums_;
  static constexpr int kCodeBytes = 1024;
  static constexpr int kTileBytes = kCodeBytes + 32 + (kZeros_ ? 16 : 0);
  static constexpr float kUnit = 1 << 24;
  static constexpr float kUpperUnit = 1 << 20;
  static constexpr bool kHasTable = false;
  static constexpr bool kZeros = kZeros_;
  struct Rows {};
  using Words = TileWords<2>;
  template <class AnyWords>
  __device__ static void decode(const AnyWords& words, int step, const Rows&, std::uint32_t zeros,
                                std::uint32_t (&a)[4]) {
    const std::uint32_t lower = kZeros ? (zeros & 0xff) * 0x00010001u : 0x00080008u;
    const std::uint32_t upper = kZeros ? (zeros >> 8) * 0x00100010u : 0x00800080u;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t word = i == 0 ? words.at(step) : words.at(step) >> 8;
      a[2 * i] = less(word & 0x000f000fu, lower);
      a[2 * i + 1] = less(masked_and_flipped<0x00f000f0u>(word, 0x00800080u), upper);
    }
  }

 private:
  __device__ static std::uint32_t less(std::uint32_t codes, std::uint32_t zeros) {
    if constexpr (kHasSums) {
      return codes;
    }
    const __half2 difference = __hsub2(*reinterpret_cast<const __half2*>(&codes),
                                       *reinterpret_cast<const __half2*>(&zeros));
    return *reinterpret_cast<const std::uint32_t*>(&difference);
  }
};

struct SignedInt8 : SignedDecoder<Int8Decoder::kCodeBytes> {
  __device__ static void decode(const Words& words, int step, const Rows&, std::uint32_t,
                                std::uint32_t (&a)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      a[r] = words.at(4 * step + r);
    }
  }
};

struct SignedBook : SignedDecoder<BookDecoder::kCodeBytes> {
  static constexpr bool kHasTable = true;
  using Rows = BookDecoder::Rows;
  __device__ static Rows rows_of(const uint4& lower, const uint4& upper) {
    return {entries_of_table(lower), entries_of_table(upper)};
  }
  template <class AnyWords>
  __device__ static void decode(const AnyWords& words, int step, const Rows& rows, std::uint32_t,
                                std::uint32_t (&a)[4]) {
    look_up(words.at(2 * step), rows, a[0], a[1]);
    look_up(words.at(2 * step + 1), rows, a[2], a[3]);
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
