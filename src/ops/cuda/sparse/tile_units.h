#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// How block-sparse rows of which each 16 keep the same groups (formats/block_sparse.h) lie in the
/// memory of a GPU.
///
/// A *block* is 16 rows and 16 inputs, the left operand of one product of tensor cores (m16n8k16):
/// groups of 32 and 64 are two and four blocks. Which input stands at which place along k is free
/// as long as both operands agree: lane 4 g + t has the inputs 4 t .. 4 t + 3 of rows g and g + 8.
/// Four blocks of a tile are a *unit* of 688 bytes:
///
///   codes    16 bytes of lane 0, of lane 1, ..: a word for each block
///              bits   0..3   4..7   8..11  12..15 | 16..19 20..23 24..27 28..31
///              row    g      g + 8  g      g + 8  | g      g + 8  g      g + 8
///              input  0      0      2      2      | 1      1      3      3       behind 4 t
///   scales   4 bytes of lane 4 g + t: of rows g and g + 8 of block t, two float16
///   zeros    1 byte of a lane: likewise, that of row g in the lower half
///   blocks   2 bytes each: which 16 inputs it meets
///   8 bytes that are not used
///
/// A tile's last unit is filled up with copies of its last block that have scale 0. So a block
/// takes 172 bytes: 2.69 bits for each weight of a matrix that keeps half of them.
namespace nibble::ops::cuda {

inline constexpr std::int64_t kTileBlock = 16;  // rows, and inputs, of a block
inline constexpr std::int64_t kUnitBlocks = 4;
inline constexpr std::int64_t kTileUnitBytes = 688;
inline constexpr std::int64_t kTileUnitScales = 512;  // where they begin
inline constexpr std::int64_t kTileUnitZeros = 640;
inline constexpr std::int64_t kTileUnitPlaces = 672;  // of the blocks

/// On the host. Tiles stand in the order of their first rows; with rows in pairs a tile's rows are
/// two times eight, 16 apart.
struct PackedTiles {
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool pairs = false;
  std::vector<std::byte> units;           // kTileUnitBytes each
  std::vector<std::int32_t> first_units;  // [n / 16 + 1]: of each tile, and of all
};

/// The first of a tile's rows, and the ninth.
struct TileRows {
  int first = 0;
  int ninth = 0;
};
constexpr TileRows tile_rows(int tile, bool pairs) {
  const int rows = static_cast<int>(kTileBlock);
  if (!pairs) {
    return {tile * rows, tile * rows + rows / 2};
  }
  const int first = tile / 2 * 2 * rows + tile % 2 * (rows / 2);
  return {first, first + rows};
}

}  // namespace nibble::ops::cuda
