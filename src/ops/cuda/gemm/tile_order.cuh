#pragma once

#include <cuda_runtime.h>

namespace nibble::ops::cuda {

/// A tile of y: rows of strip `strip`, tokens of tile `tokens`.
struct OutputTile {
  int strip = 0;
  int tokens = 0;
};

/// Tile number `index` in an order in which tiles that run at the same time share weights and
/// inputs in the L2 cache: bands of eight token tiles, in which strips follow one another.
__host__ __device__ __forceinline__ OutputTile tile_at(int index, int strips, int token_tiles) {
  constexpr int kBand = 8;
  const int band = index / (kBand * strips);
  const int left = token_tiles - band * kBand;
  const int width = left < kBand ? left : kBand;
  const int inside = index - band * kBand * strips;
  return {inside / width, band * kBand + inside % width};
}

}  // namespace nibble::ops::cuda
