#pragma once

#include <cstdint>

/// InputForm::kInt4Tiles: a row of signed 4-bit codes, two to a byte, in the order in which the
/// joined words of 4-bit weights have their inputs (gemm/int4/int4_operands.h). Byte 4 t + n of
/// each 16 has two of 32 columns: 8 t + {0, 2, 1, 3}[n], and in its upper half the column 4 further
/// on.
namespace nibble::ops::cuda {

inline constexpr std::int64_t kInt4PerByte = 2;

/// The column in the lower half of a byte of a row; that in the upper half is kInt4Apart behind it.
inline constexpr int kInt4Apart = 4;
constexpr int int4_column(int byte) {
  const int n = byte % 4;
  const int swapped = n % 2 * 2 + n / 2;  // 0, 2, 1, 3
  return byte / 16 * 32 + byte % 16 / 4 * 8 + swapped;
}

/// Eight codes as they lie in a row, of two words with a code in each byte: columns 8 t + {0, 2, 1,
/// 3} and those 4 further on.
constexpr std::uint32_t joined_int4(std::uint32_t first, std::uint32_t second) {
  constexpr std::uint32_t kLower = 0x0f0f0f0f;
  return (first & kLower) | ((second << 4) & ~kLower);
}

/// Where the word with columns [column, column + 8), a multiple of 8, begins in a row.
constexpr int int4_word_byte(int column) {
  return column / 32 * 16 + column % 32 / 8 * 4;
}

}  // namespace nibble::ops::cuda
