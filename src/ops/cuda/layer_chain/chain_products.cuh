#pragma once

#include <cstdint>

#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/layer_chain/chain_weights.cuh"

/// A warp's products: all rows of the thread block with the warp's groups of inputs.
namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// Adds the products of four tiles to totals: tile i, which lies `second` bytes further from the
/// kOfGroup-th on, with inputs[i / kOfGroup], to total i. totals: rows g and g + 8 of a tile, the
/// latter 1 / Decoder::kUpperUnit times too large; right in the lanes of column 0, or to be added
/// over those of all columns, where weights have four groups. `rows`: of the portion's tiles.
template <typename Weights, int kOfGroup>
__device__ __forceinline__ void multiply_tiles(
    const std::byte* piece, int second, const GroupInputs<Weights::kGroups>* inputs, int base,
    const typename Weights::Decoder::Rows (&rows)[kPieceTiles], float (&totals)[kPieceTiles][2]) {
  using Decoder = typename Weights::Decoder;
  constexpr int kTileBytes = Weights::kTileBytes;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto tile_at = [&](int i) {
    return piece + (i < kOfGroup ? i * kTileBytes : second + (i - kOfGroup) * kTileBytes);
  };
  typename Decoder::Words words[kPieceTiles];
#pragma unroll
  for (int i = 0; i < kPieceTiles; ++i) {
    words[i] = Decoder::Words::load(tile_at(i), lane);
  }
  std::int32_t c[kPieceTiles][4] = {};
#pragma unroll
  for (int h = 0; h < 4; ++h) {
#pragma unroll
    for (int i = 0; i < kPieceTiles; ++i) {
      std::uint32_t operands[Decoder::kOperands][4];
      Decoder::decode(words[i], h, rows[i % kOfGroup], operands);
      const auto& x = inputs[i / kOfGroup];
#pragma unroll
      for (const auto& operand : operands) {
        mma_s8(c[i], operand, x.word(h, 0), x.word(h, 1));
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPieceTiles; ++i) {
    Weights::add(tile_at(i), c[i], base, inputs[i / kOfGroup], totals[i]);
  }
}

/// Products of a portion of `tiles` tiles, to sums [tiles * 16][kChainWarps], of which this warp
/// has the first column. `rounds`: the row is still to be rounded. `tables`: of the portion's first
/// row, in shared memory; books only.
template <typename Weights>
__device__ __forceinline__ void multiply_portion(ChainInputs<Weights>& inputs, PieceRing& ring,
                                                 int groups, int tiles, int base, bool rounds,
                                                 const uint4* tables, float* sums) {
  using Decoder = typename Weights::Decoder;
  typename Decoder::Rows rows[kPieceTiles];
  if constexpr (Weights::kHasTable) {
    const uint4* const of_lane = tables + static_cast<int>(threadIdx.x) % kWarp / 4;
#pragma unroll
    for (int i = 0; i < kPieceTiles; ++i) {
      rows[i].lower = of_lane[min(i, tiles - 1) * 16];
      rows[i].upper = of_lane[min(i, tiles - 1) * 16 + 8];
    }
  }
  float totals[kPieceTiles][2] = {};
  if (groups_at_once(tiles) == 1) {
#pragma unroll 1
    for (int g = 0; g < groups; ++g) {
      if (rounds) {
        inputs.round(g);
      }
      const GroupInputs<Weights::kGroups> x = inputs.group(g);
      multiply_tiles<Weights, kPieceTiles>(ring.wait(), 0, &x, base, rows, totals);
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
      GroupInputs<Weights::kGroups> x[2] = {inputs.group(g), inputs.group(min(g + 1, groups - 1))};
      const bool two = g + 1 < groups;
      if (!two) {  // the first group once more, and nothing of it
        x[1].scale = 0.0f;
      }
      constexpr int kSecond = kHalf * Weights::kTileBytes;
      multiply_tiles<Weights, kHalf>(ring.wait(), two ? kSecond : 0, x, base, rows, totals);
      ring.release();
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      totals[i][0] += totals[i + kHalf][0];
      totals[i][1] += totals[i + kHalf][1];
    }
  }
  if constexpr (Weights::kGroups > 1) {
#pragma unroll
    for (auto& of_tile : totals) {
#pragma unroll
      for (float& total : of_tile) {
        total += __shfl_xor_sync(kAllLanes, total, 1);
        total += __shfl_xor_sync(kAllLanes, total, 2);
      }
    }
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kPieceTiles; ++i) {
      if (i < tiles) {
        sums[(i * 16 + lane / 4) * kChainWarps] = totals[i][0];
        sums[(i * 16 + 8 + lane / 4) * kChainWarps] = totals[i][1] * Decoder::kUpperUnit;
      }
    }
  }
}

/// All portions of the share, to sums [rows][kChainWarps], as above.
template <typename Weights>
__device__ __forceinline__ void multiply_share(ChainInputs<Weights>& inputs, PieceRing& ring,
                                               int groups, const ChainShare& share, int base,
                                               bool rounds, const uint4* tables, float* sums) {
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
    const int row = (tile - share.begin) * 16;
    multiply_portion<Weights>(inputs, ring, groups, tiles, base, rounds && tile == share.begin,
                              tables + row, sums + row * kChainWarps);
    tile += tiles;
  }
}

#endif

}  // namespace nibble::ops::cuda
