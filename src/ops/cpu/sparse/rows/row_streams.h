#pragma once

#include <cstdint>

#include "ops/cpu/sparse/sparse_kernel.h"

/// Streams of block-sparse rows, one for each row.
///
/// The inputs of a row are cut into pieces of 16 (of 8 where groups have 8), and these into windows
/// of 16 pieces. A stream begins on a border of 8 bytes:
///
///   masks     [windows] 16 bits each, little-endian: bit l says that piece l of the window is kept
///
/// and then, for each window of which n pieces, or g groups, are kept:
///
///   scales    [g] float16, also where the file has multiples of units (formats/row_unit.h)
///   zeros     a nibble each, the first in the low half of a byte, (g + 1) / 2 bytes; or [g]
///   codes     a line for each two quads of a piece, [n] 4 bytes each: byte i is code i of the
///             first quad (low half) and of the second one (high half); or a line for each quad
///
/// Codes of up to 4 bits are nibbles, others bytes. Behind the last stream kReadBehind bytes of any
/// value can be read. Codes of a book have no zeros; before the masks stands what they stand for:
///
///   table     [16] int8, -127 to 127 (ops/int8_table.h): entry(code)
///   unit      float32: a code stands for unit * entry(code)
///
/// With a(k) the INT8 codes of the activations, every kernel computes for each kept piece p, from
/// the first on, with l = p % 16 and w = code - zero, or entry(code),
///
///   s[l] = fma(float(sum over the piece of w * a), scale * a_scale, s[l])
///
/// and then u[i] = s[i] + s[i + 8], v[i] = u[i] + u[i + 4], y = (v[0] + v[2]) + (v[1] + v[3]), with
/// a book times its unit. What is in the brackets is an exact integer below 2^20. So results are
/// equal to the last bit on all instruction sets, batch sizes and thread counts.
///
/// Also included by files that are compiled for one instruction set.
namespace nibble::ops::cpu {

inline constexpr int kSparseWindow = 16;  // pieces
inline constexpr int kStreamBorder = 8;   // bytes
inline constexpr int kReadBehind = 128;   // bytes
inline constexpr int kTableBytes = 16;    // of a book, before its unit

/// Weights of a piece.
static constexpr int sparse_piece_of(int group) {
  return group < 16 ? group : 16;
}

/// SparseKernel::run of rows, the reference.
void run_rows_scalar(const SparseWeight& w, const SparseInput& x, std::int64_t begin,
                     std::int64_t end, float* y, std::int64_t ldy);

}  // namespace nibble::ops::cpu
