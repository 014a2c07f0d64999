#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/cluster.cuh"
#include "ops/cuda/medium_batch/launch.h"
#include "ops/cuda/small_batch/share.cuh"

namespace nibble::ops::cuda {

/// How a kernel is made: kColumns columns in the right operand, kDigits of a token; kRowGroups
/// groups of 64 rows at a time; blocks of a cluster divide k, and so do the warpgroups that have
/// the same rows. All these are partners: each adds up its share of their sums.
template <class Decoder_, int kColumns_, int kDigits_, bool kScaleOfToken_, int kRowGroups_,
          int kCluster_>
struct MediumBatchShape {
  using Decoder = Decoder_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kDigits = kDigits_;
  static constexpr bool kScaleOfToken = kScaleOfToken_;
  static constexpr int kRowGroups = kRowGroups_;
  static constexpr int kCluster = kCluster_;
  static constexpr int kWarpgroups =
      kColumns > 64 ? 2 : 4;  // that multiply: many sums, few threads
  static constexpr int kSlices = kWarpgroups / kRowGroups;
  static constexpr int kPartners = kSlices * kCluster;
  static constexpr int kSums = kColumns / 2;                // integers of a lane
  static constexpr int kTotals = kSums / kDigits;           // and what they become
  static constexpr int kShare = kTotals / kPartners;        // that a partner adds up
  static constexpr int kThreads = 128 * (kWarpgroups + 1);  // the last warpgroup copies
  static constexpr int kTiles = 4 * kRowGroups;             // row tiles of a stage
  // Of a stage:
  static constexpr int kInputBytes = kColumns * 128;
  static constexpr int kWeightBytes = kTiles * Decoder::kTileBytes;
  static constexpr int kScales = kScaleOfToken ? 0 : kTotals / 2;  // of the tokens of a lane
  static constexpr int kScaleBytes = 4 * 4 * kScales;
  static constexpr int kFullArrivals = kScaleOfToken ? 2 : 2 + 32;
  static constexpr int kTotalBytes = kPartners == 1 ? 0 : kTotals * 128 * 4;  // of a warpgroup
  static_assert(kShare >= 1);
};

/// Where the parts of a block's shared memory lie. A stage holds 128 inputs of all columns, their
/// scales and the codes and scales of each row tile. A stage is always the same slice's, or one
/// that is ahead would take its barrier's last phase for the next.
struct MediumBatchLayout {
  int stages = 0;
  int tiles = 0;     // of stage 0
  int scales = 0;    // of stage 0: [4][kScales], those of the lanes 4 g + t for each t
  int full = 0;      // barriers
  int empty = 0;     // barriers
  int totals = 0;    // [warpgroup][partner][share][thread]
  int barriers = 0;  // of each row group: its totals are there; they have been read
  int bytes = 0;
};

template <class Shape>
constexpr MediumBatchLayout make_layout() {
  constexpr int kMemory = 200 * 1024;  // the rest is for kernels before and after this one
  constexpr int kMostStages = 24;
  constexpr int kTotals = Shape::kWarpgroups * Shape::kTotalBytes;
  constexpr int kBarriers = 16 * Shape::kRowGroups;
  constexpr int kAlignment = 128;
  const int stage = Shape::kInputBytes + Shape::kWeightBytes + Shape::kScaleBytes + 16;
  const int fitting = (kMemory - kTotals - kBarriers - kAlignment) / stage;
  MediumBatchLayout layout;
  layout.stages = (fitting < kMostStages ? fitting : kMostStages) / Shape::kSlices * Shape::kSlices;
  layout.tiles = layout.stages * Shape::kInputBytes;
  layout.scales = layout.tiles + layout.stages * Shape::kWeightBytes;
  layout.full = layout.scales + layout.stages * Shape::kScaleBytes;
  layout.empty = layout.full + layout.stages * 8;
  layout.totals = (layout.empty + layout.stages * 8 + kAlignment - 1) / kAlignment * kAlignment;
  layout.barriers = layout.totals + kTotals;
  layout.bytes = layout.barriers + kBarriers;
  return layout;
}
template <class Shape>
inline constexpr MediumBatchLayout kLayout = make_layout<Shape>();

/// What the copying and the multiplying warps both know.
template <class Shape>
struct MediumBatchStages {
  const MediumBatchArguments& a;
  std::uint32_t memory;  // address of this block's shared memory

  /// A place in the ring. A barrier's phase ends each time the ring has gone round.
  struct Place {
    int stage = 0;
    std::uint32_t parity = 0;
  };
  __device__ static void advance(Place& place, int units) {
    place.stage += units;
    while (place.stage >= kLayout<Shape>.stages) {
      place.stage -= kLayout<Shape>.stages;
      place.parity ^= 1;
    }
  }
  /// For fewer units than the ring has stages.
  __device__ static void step(Place& place, int units) {
    place.stage += units;
    const bool round = place.stage >= kLayout<Shape>.stages;
    place.stage -= round ? kLayout<Shape>.stages : 0;
    place.parity ^= round ? 1 : 0;
  }

  // Addresses in shared memory.
  __device__ std::uint32_t inputs_of(int stage) const {
    return memory + stage * Shape::kInputBytes;
  }
  __device__ std::uint32_t tiles_of(int stage) const {
    return memory + kLayout<Shape>.tiles + stage * Shape::kWeightBytes;
  }
  __device__ std::uint32_t scales_of(int stage) const {
    return memory + kLayout<Shape>.scales + stage * Shape::kScaleBytes;
  }
  __device__ std::uint32_t full(int stage) const {
    return memory + kLayout<Shape>.full + stage * 8;
  }
  __device__ std::uint32_t empty(int stage) const {
    return memory + kLayout<Shape>.empty + stage * 8;
  }
  __device__ std::uint32_t totals_full(int row_group) const {
    return memory + kLayout<Shape>.barriers + row_group * 16;
  }
  __device__ std::uint32_t totals_empty(int row_group) const { return totals_full(row_group) + 8; }

  __device__ static int rank() { return Shape::kCluster == 1 ? 0 : cluster_rank(); }
  /// The row tiles of this cluster.
  __device__ TileShare<1> share() const {
    return TileShare<1>::of(a.tiles_each, a.tiles_more, a.blocks,
                            static_cast<int>(blockIdx.x) / Shape::kCluster);
  }
  /// Groups of 64 rows in which this cluster has tiles. The warpgroups of others have nothing to
  /// do.
  __device__ int row_groups() const {
    const auto tiles = share();
    return max(1, min(Shape::kRowGroups, (tiles.end - tiles.begin + 3) / 4));
  }
  __device__ static int row_group() { return static_cast<int>(threadIdx.x) / 128 / Shape::kSlices; }
  /// This block's units along k, [begin(), end()).
  __device__ int begin() const { return a.blocks * rank() / Shape::kCluster; }
  __device__ int end() const { return a.blocks * (rank() + 1) / Shape::kCluster; }

  /// Of total i of lanes 4 g + t: its token.
  __device__ static constexpr int token_of(int i, int t) {
    return Shape::kDigits == 2 ? i / 2 * 4 + t : i / 4 * 8 + t * 2 + i % 2;
  }
  /// Which of the tokens of a lane, and the first total of each.
  __device__ static constexpr int scale_of(int i) {
    return Shape::kDigits == 2 ? i / 2 : i / 4 * 2 + i % 2;
  }
  __device__ static constexpr int total_of(int scale) {
    return Shape::kDigits == 2 ? 2 * scale : scale / 2 * 4 + scale % 2;
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
};

}  // namespace nibble::ops::cuda
