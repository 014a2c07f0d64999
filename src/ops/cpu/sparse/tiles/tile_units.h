#pragma once

#include <cstdint>

#include "ops/cpu/sparse/sparse_kernel.h"

/// Units of block-sparse tiles, 16 rows that keep the same groups. A unit is one group of a tile:
///
///   codes    quads of four inputs, 64 bytes each: byte 4 r + i is row r, input i. As nibbles two
///            quads share a line of 64 bytes, the first in the low halves
///   scales   [16] float16; or whole numbers in a byte each, from -63 to 63, in units of the rows
///   zeros    [8] rows 0 to 7 in the low halves, 8 to 15 in the high ones; or a byte each [16]
///
/// The units of a tile stand in the order of their groups, of all tiles one behind the other, so
/// that memory is read in one stream. Which group each of them is stands apart
/// (SparseWeight::groups).
///
/// With a(k) the INT8 codes of the activations, every kernel computes for row r of a tile
///
///   y = fma(float(sum over the group of code * a - zero * sum of a), scale * a_scale, y)
///
/// for one group after another, from 0 on. What is in the brackets is an exact integer below 2^21,
/// so results are equal to the last bit on all instruction sets, batch sizes and thread counts.
///
/// Also included by files that are compiled for one instruction set.
namespace nibble::ops::cpu {

inline constexpr int kSparseTile = 16;      // rows
inline constexpr int kSparseTileLine = 64;  // bytes: kSparseTile rows of a quad

/// Where the parts of a unit stand, in bytes. Codes come first.
struct TileUnitLayout {
  int scales;
  int zeros;
  int bytes;
};
static constexpr TileUnitLayout tile_unit_layout_of(int group, int held_bits, int scale_bytes) {
  const int scales = group * kSparseTile * held_bits / 8;
  const int zeros = scales + kSparseTile * scale_bytes;
  return {scales, zeros, zeros + kSparseTile * held_bits / 8};
}

/// SparseKernel::run of tiles, the reference; begin and end count tiles.
void run_tiles_scalar(const SparseWeight& w, const SparseInput& x, std::int64_t begin,
                      std::int64_t end, float* y, std::int64_t ldy);

}  // namespace nibble::ops::cpu
