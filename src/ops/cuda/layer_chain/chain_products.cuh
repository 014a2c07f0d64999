#pragma once

#include <cstdint>

#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/layer_chain/chain_inputs.cuh"
#include "ops/cuda/small_batch/decoders.cuh"
#include "ops/cuda/small_batch/layer.cuh"

/// A warp's products: all rows of the thread block with the warp's groups of inputs.
namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// Adds the products of four tiles to totals: tile i, which lies `second` bytes further from the
/// kOfGroup-th on, with inputs[i / kOfGroup], to total i. totals: rows g and g + 8 of a tile, the
/// latter 16 times too large; right in the lanes of column 0.
template <int kOfGroup>
__device__ __forceinline__ void multiply_tiles(const std::byte* piece, int second,
                                               const GroupInputs* inputs, int base,
                                               float (&totals)[kPieceTiles][2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto tile_at = [&](int i) {
    return piece + (i < kOfGroup ? i * kChainTileBytes : second + (i - kOfGroup) * kChainTileBytes);
  };
  Int4Decoder::Words words[kPieceTiles];
  std::int32_t c[kPieceTiles][4] = {};
#pragma unroll
  for (int i = 0; i < kPieceTiles; ++i) {
    words[i] = Int4Decoder::Words::load(tile_at(i), lane);
  }
#pragma unroll
  for (int h = 0; h < 4; ++h) {
#pragma unroll
    for (int i = 0; i < kPieceTiles; ++i) {
      std::uint32_t operands[Int4Decoder::kOperands][4];
      Int4Decoder::decode(words[i], h, {}, operands);
      const GroupInputs& x = inputs[i / kOfGroup];
      mma_s8(c[i], operands[0], x.word(h, 0), x.word(h, 1));
    }
  }
#pragma unroll
  for (int i = 0; i < kPieceTiles; ++i) {
    const GroupInputs& x = inputs[i / kOfGroup];
    const float2 scale = scale_pair(tile_at(i) + Int4Decoder::kCodeBytes + lane / 4 * 4, false);
    const int lower = base * c[i][0] + c[i][1];
    const int upper = base * c[i][2] + c[i][3] - lower;  // as Int4Decoder::finish(), less zeros
    totals[i][0] = fmaf(static_cast<float>(lower + x.zeros) * scale.x, x.scale, totals[i][0]);
    totals[i][1] = fmaf(static_cast<float>(upper) * scale.y, x.scale, totals[i][1]);
  }
}

/// Products of a portion of `tiles` tiles, to sums [tiles * 16][kChainWarps], of which this warp
/// has the first column. `rounds`: the row is still to be rounded.
__device__ __forceinline__ void multiply_portion(ChainInputs& inputs, PieceRing& ring, int groups,
                                                 int tiles, int base, bool rounds, float* sums) {
  float totals[kPieceTiles][2] = {};
  if (groups_at_once(tiles) == 1) {
#pragma unroll 1
    for (int g = 0; g < groups; ++g) {
      if (rounds) {
        inputs.round(g);
      }
      const GroupInputs x = inputs.group(g);
      multiply_tiles<kPieceTiles>(ring.wait(), 0, &x, base, totals);
      ring.release();
    }
  } else {
    constexpr int kHalf = kPieceTiles / 2;
#pragma unroll 1
    for (int g = 0; g < groups; g += 2) {
      if (rounds) {
        inputs.round(g);
        if (g + 1 < groups) {
          inputs.round(g + 1);
        }
      }
      GroupInputs x[2] = {inputs.group(g), inputs.group(min(g + 1, groups - 1))};
      const bool two = g + 1 < groups;
      if (!two) {  // the first group once more, and nothing of it
        x[1].scale = 0.0f;
      }
      multiply_tiles<kHalf>(ring.wait(), two ? kPieceBytes / 2 : 0, x, base, totals);
      ring.release();
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      totals[i][0] += totals[i + kHalf][0];
      totals[i][1] += totals[i + kHalf][1];
    }
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kPieceTiles; ++i) {
      if (i < tiles) {
        sums[(i * 16 + lane / 4) * kChainWarps] = totals[i][0];
        sums[(i * 16 + 8 + lane / 4) * kChainWarps] = totals[i][1] * Int4Decoder::kUpperUnit;
      }
    }
  }
}

/// All portions of the share, to sums [rows][kChainWarps], as above.
__device__ __forceinline__ void multiply_share(ChainInputs& inputs, PieceRing& ring, int groups,
                                               const ChainShare& share, int base, bool rounds,
                                               float* sums) {
  if (groups == 0) {
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < (share.end - share.begin) * 16;
         i += kWarp) {
      sums[i * kChainWarps] = 0.0f;
    }
    return;
  }
#pragma unroll 1
  for (int tile = share.begin; tile < share.end;) {
    const int tiles = portion_tiles(tile, share.end);
    multiply_portion(inputs, ring, groups, tiles, base, rounds && tile == share.begin,
                     sums + (tile - share.begin) * 16 * kChainWarps);
    tile += tiles;
  }
}

#endif

}  // namespace nibble::ops::cuda
