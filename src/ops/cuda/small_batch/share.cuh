#pragma once

#include <cuda_runtime.h>

#include "ops/cuda/device_code/divisor.h"
#include "ops/cuda/packed/unit_format.h"
#include "ops/cuda/small_batch/layer_arguments.h"

/// How the rows of a layer are shared by the thread blocks of a grid, and those of a block by its
/// warps. A portion is what of a block's row tiles lies in one run of kPortion tiles of a unit; the
/// pieces of all portions, one for each unit, stand in a line, of which every warp takes an equal
/// part (Stream-K, arXiv 2301.03598, within a block).
namespace nibble::ops::cuda {

/// Row tiles [begin, end) over all inputs: the share of one thread block.
template <int kPortion>
struct TileShare {
  int begin;
  int end;
  int blocks;  // of 128 inputs

  /// Share `index` where each has `each` tiles, the first `more` of them one more.
  __device__ static TileShare of(int each, int more, int blocks, int index) {
    const int begin = index * each + min(index, more);
    return {begin, begin + each + (index < more ? 1 : 0), blocks};
  }
  /// Tiles of the portion that begins with `tile`.
  __device__ int tiles_of(int tile) const { return min(kPortion - tile % kPortion, end - tile); }
  __device__ int portions() const {
    return begin == end ? 0 : (end - 1) / kPortion - begin / kPortion + 1;
  }
  /// First tile of a portion.
  __device__ int first_of(int portion) const {
    return portion == 0 ? begin : (begin / kPortion + portion) * kPortion;
  }
};

/// How `pieces` in a line are divided among warps.
struct WarpShare {
  int each;
  int more;  // the first ones have one piece more

  __device__ WarpShare(int pieces, const Divisor& warps) {
    each = warps.quotient(pieces);
    more = pieces - each * warps.value();
  }
  __device__ int first(int warp) const { return warp * each + min(warp, more); }
  __device__ int count(int warp) const { return each + (warp < more ? 1 : 0); }
};

/// A place in a warp's part of the line.
template <int kPortion>
struct Cursor {
  int portion = 0;
  int tile = 0;  // the first one of the portion
  int block = 0;
  int left = 0;  // pieces from here on

  __device__ static Cursor first(const TileShare<kPortion>& share, int warp,
                                 const LayerArguments& layer) {
    const WarpShare line(share.portions() * share.blocks, layer.by_warps);
    const int piece = line.first(warp);
    Cursor cursor;
    cursor.portion = layer.by_blocks.quotient(piece);
    cursor.tile = share.first_of(cursor.portion);
    cursor.block = piece - cursor.portion * share.blocks;
    cursor.left = line.count(warp);
    return cursor;
  }
  /// True when that was the portion's last piece.
  __device__ bool advance(const TileShare<kPortion>& share) {
    --left;
    if (++block < share.blocks) {
      return false;
    }
    block = 0;
    tile = share.first_of(++portion);
    return true;
  }
  /// Where the piece's bytes begin among the units of the layer.
  __device__ long long offset(int blocks, int tile_bytes) const {
    constexpr int kAll = static_cast<int>(kTiles);
    return (static_cast<long long>(tile / kAll * blocks + block) * kAll + tile % kAll) * tile_bytes;
  }
};

}  // namespace nibble::ops::cuda
