#pragma once

#include <cstdint>

#include "ops/cuda/elementwise/int4_tiles.h"

/// Operands of mma.m16n8k64 with signed 4-bit integers (PTX ISA, "matrix fragments for
/// mma.m16n8k64"), from units of 4-bit codes (unit_format.h) and rows of kInt4Tiles. Nibble n of
/// lane 4 g + t has input 8 t + {0, 4, 2, 6, 1, 5, 3, 7}[n] of 32 on both sides: the sum is the
/// same in any order.
///
/// Functions of host and device.
namespace nibble::ops::cuda {

inline constexpr int kInt4Products = 2;       // of 64 inputs, in a unit
inline constexpr int kInt4TokenBytes = 64;    // of a token, in a unit
inline constexpr std::int32_t kInt4Bias = 8;  // codes are less this
inline constexpr std::uint32_t kInt4Ones = 0x11111111;

/// The left operand of 16 rows and 128 inputs: [product][register].
using Int4Left = std::uint32_t[kInt4Products][4];

/// Words w = 2 h + e of a lane, of a tile of a unit: the codes of both rows less 8. Those of row
/// g + 8 are signed already.
constexpr void int4_left(Int4Left& left, const std::uint32_t (&words)[8]) {
  constexpr std::uint32_t kSigns = 0x88888888;
  for (int h = 0; h < 4; ++h) {
    const std::uint32_t first = words[2 * h];
    const std::uint32_t second = words[2 * h + 1];
    std::uint32_t* const registers = left[h / 2] + h % 2 * 2;
    registers[0] = joined_int4(first, second) ^ kSigns;
    registers[1] = joined_int4(first >> 4, second >> 4);
  }
}

/// The left operand whose products are the sums of eight tokens' inputs: ones in rows 0 to 7 (half
/// 0) or 8 to 15 (half 1), so that two products of tokens share their results.
constexpr void int4_ones(std::uint32_t (&left)[4], int half) {
  for (int i = 0; i < 4; ++i) {
    left[i] = i % 2 == half ? kInt4Ones : 0;
  }
}

/// The sum of (w + weight_shift) * (x - zero) over so many inputs, from the sums of w * x, of w and
/// of x. Where inputs are padding, x is the zero.
constexpr std::int32_t int4_corrected(std::int32_t sum, std::int32_t sum_of_weights,
                                      std::int32_t sum_of_inputs, std::int32_t weight_shift,
                                      std::int32_t zero, std::int32_t inputs) {
  return sum + weight_shift * sum_of_inputs - zero * (sum_of_weights + weight_shift * inputs);
}

/// What codes less 8 of two rows are short of their values: from their zeros, bits 0 to 7 and 8 to
/// 15.
struct Int4Shifts {
  std::int32_t rows[2];
};
constexpr Int4Shifts int4_shifts(std::uint32_t zeros) {
  return {{kInt4Bias - static_cast<std::int32_t>(zeros & 0xff),
           kInt4Bias - static_cast<std::int32_t>(zeros >> 8)}};
}
inline constexpr std::uint32_t kInt4NoZeros = 0x0808;

}  // namespace nibble::ops::cuda
