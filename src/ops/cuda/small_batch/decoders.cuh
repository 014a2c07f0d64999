#pragma once

#include <cstdint>

#include <cuda_runtime.h>

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
  static constexpr float kUpperUnit = 1.0f / 16;
  struct Rows {};
  using Words = TileWords<2>;

  /// The operand for inputs 32 h .. 32 h + 31.
  __device__ static void decode(const Words& words, int h, const Rows&, std::uint32_t (&a)[4]) {
    a[0] = words.at(2 * h) & 0x0f0f0f0fu;
    a[1] = words.at(2 * h);
    a[2] = words.at(2 * h + 1) & 0x0f0f0f0fu;
    a[3] = words.at(2 * h + 1);
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
  struct Rows {};
  using Words = TileWords<4>;

  __device__ static void decode(const Words& words, int h, const Rows&, std::uint32_t (&a)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      a[r] = words.at(4 * h + r);
    }
  }

  __device__ static void finish(int& lower, int& upper, int zero_of_lower, int zero_of_upper,
                                int x) {
    lower -= (zero_of_lower - kZero) * x;
    upper -= (zero_of_upper - kZero) * x;
  }
};

/// Entries of a row's table of 16, by byte permutation: two permutations look up the low and the
/// high eight entries, a third one takes for each weight the right of the two.
struct BookDecoder {
  static constexpr float kUpperUnit = 1.0f;
  static constexpr int kZero = 0;
  static constexpr bool kNeedsSums = false;
  static constexpr int kCodeBytes = 1024;
  static constexpr bool kHasTable = true;
  struct Rows {
    uint4 lower;  // table of row g
    uint4 upper;  // of row g + 8
  };

  using Words = TileWords<2>;

  __device__ static void decode(const Words& words, int h, const Rows& tables,
                                std::uint32_t (&a)[4]) {
    look_up(words.at(2 * h), tables, a[0], a[1]);
    look_up(words.at(2 * h + 1), tables, a[2], a[3]);
  }

  __device__ static void finish(int&, int&, int, int, int) {}

 private:
  // Logic, shifts and permutations share a pipe, which bounds this: shifts to the right are
  // products here, and selectors go unmasked into the permutation, since their highest bits are
  // clear.
  __device__ static void look_up(std::uint32_t word, const Rows& tables, std::uint32_t& lower,
                                 std::uint32_t& upper) {
    const std::uint32_t entry = word & 0x77777777u;
    const std::uint32_t half = halves(shifted<1>(word));
    lower = choose(tables.lower, entry, half);
    upper = choose(tables.upper, shifted<16>(entry), shifted<16>(half));
  }

  __device__ static std::uint32_t choose(const uint4& table, std::uint32_t entry,
                                         std::uint32_t half) {
    return permuted(permuted(table.x, table.y, entry), permuted(table.z, table.w, entry), half);
  }

  /// Byte i of the first or, where the code's highest bit is set, of the second word.
  __device__ static std::uint32_t halves(std::uint32_t codes_by_two) {
    std::uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, %4;"
        : "=r"(result)
        : "r"(codes_by_two), "n"(0x44444444u), "r"(0x32103210u), "n"((0xf0 & 0xcc) | 0xaa));
    return result;
  }
  template <int kBits>
  __device__ static std::uint32_t shifted(std::uint32_t bits) {
    std::uint32_t result;
    asm("mul.hi.u32 %0, %1, %2;" : "=r"(result) : "r"(bits), "r"(1u << (32 - kBits)));
    return result;
  }
  __device__ static std::uint32_t permuted(std::uint32_t low, std::uint32_t high,
                                           std::uint32_t selectors) {
    std::uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selectors));
    return result;
  }
};

}  // namespace nibble::ops::cuda
