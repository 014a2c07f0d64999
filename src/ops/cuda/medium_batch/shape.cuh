#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/cluster.cuh"
#include "ops/cuda/medium_batch/launch.h"
#include "ops/cuda/small_batch/share.cuh"

namespace nibble::ops::cuda {

/// How a kernel is made: kColumns columns in the right operand, kDigits of a token, INT8 or float16
/// as the decoder's; kRowGroups groups of 64 rows at a time; blocks of a cluster divide k, and so
/// do the warpgroups that have the same rows. All these are partners: each adds up its share of
/// their sums.
template <class Decoder_, int kColumns_, int kDigits_, bool kScaleOfToken_, int kRowGroups_,
          int kCluster_>
struct MediumBatchShape {
  using Decoder = Decoder_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kDigits = kDigits_;
  static constexpr bool kScaleOfToken = kScaleOfToken_;
  static constexpr int kRowGroups = kRowGroups_;
  static constexpr int kCluster = kCluster_;
  static constexpr bool kHalf = Decoder::kHalf;
  using Sum = std::conditional_t<kHalf, float, int>;
  static constexpr int kSums = kColumns / 2;                          // of a lane
  static constexpr int kTotals = kSums / kDigits;                     // and what they become
  static constexpr int kWarpgroups = warpgroups_of(kSums + kTotals);  // that multiply
  static constexpr int kSlices = kWarpgroups / kRowGroups;
  static constexpr int kPartners = kSlices * kCluster;
  static constexpr int kShare = kTotals / kPartners;        // that a partner adds up
  static constexpr int kThreads = 128 * (kWarpgroups + 1);  // the last warpgroup copies
  static constexpr int kTiles = 4 * kRowGroups;             // row tiles of a stage
  // Of a stage:
  static constexpr int kBoxBytes = kColumns * 128;  // of the copy engine
  static constexpr int kBoxes = kHalf ? 2 : 1;
  static constexpr int kInputBytes = kBoxes * kBoxBytes;
  static constexpr int kSteps = 4 * kBoxes;  // products of 32 bytes along k
  static constexpr int kWeightBytes = kTiles * Decoder::kTileBytes;
  static constexpr bool kHasScales = !kHalf && !kScaleOfToken;
  static constexpr int kScales = kHasScales ? kTotals / 2 : 0;  // of the tokens of a lane
  static constexpr bool kHasSums = Decoder::kHasSums;
  static constexpr int kSumBytes = kHasSums ? 8 * kColumns : 0;
  static constexpr int kExtraBytes = 4 * 4 * kScales + kSumBytes;
  static constexpr int kFullArrivals = kHasScales ? 2 + 32 : 2;
  static constexpr int kTotalBytes = kPartners == 1 ? 0 : kTotals * 128 * 4;  // of a warpgroup
  static_assert(kShare >= 1);
};

/// Where the parts of a block's shared memory lie. A stage holds 128 inputs of all columns, the
/// codes and scales of each row tile, and what belongs to the inputs. A stage is always the same
/// slice's, or one that is ahead would take its barrier's last phase for the next.
struct MediumBatchLayout {
  // Of a stage, in bytes:
  int tiles = 0;
  int extras = 0;  // scales [4][kScales], those of the lanes 4 g + t for each t; or sums
  int full = 0;    // barriers
  int empty = 0;
  int stage = 0;  // bytes from stage to stage
  // Of all:
  int ring = 0;      // bytes of all stages
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
  constexpr int kSwizzled = 1024;  // what inputs are aligned to
  MediumBatchLayout layout;
  layout.tiles = Shape::kInputBytes;
  layout.extras = layout.tiles + Shape::kWeightBytes;
  layout.full = layout.extras + Shape::kExtraBytes;
  layout.empty = layout.full + 8;
  layout.stage = (layout.empty + 8 + kSwizzled - 1) / kSwizzled * kSwizzled;
  const int fitting = (kMemory - kTotals - kBarriers) / layout.stage;
  const int stages =
      (fitting < kMostStages ? fitting : kMostStages) / Shape::kSlices * Shape::kSlices;
  layout.ring = stages * layout.stage;
  layout.totals = layout.ring;
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

  /// A stage of the ring. A barrier's phase ends each time the ring has gone round.
  struct Place {
    std::uint32_t at;  // address in shared memory
    std::uint32_t parity = 0;

    __device__ std::uint32_t inputs() const { return at; }
    __device__ std::uint32_t tiles() const { return at + kLayout<Shape>.tiles; }
    __device__ std::uint32_t extras() const { return at + kLayout<Shape>.extras; }
    __device__ std::uint32_t full() const { return at + kLayout<Shape>.full; }
    __device__ std::uint32_t empty() const { return at + kLayout<Shape>.empty; }
  };
  __device__ Place first_place() const { return {memory}; }
  __device__ void advance(Place& place, int units) const {
    place.at += units * kLayout<Shape>.stage;
    while (place.at >= memory + kLayout<Shape>.ring) {
      place.at -= kLayout<Shape>.ring;
      place.parity ^= 1;
    }
  }
  /// For fewer units than the ring has stages.
  __device__ void step(Place& place, int units) const {
    place.at += units * kLayout<Shape>.stage;
    const bool round = place.at >= memory + kLayout<Shape>.ring;
    place.at -= round ? kLayout<Shape>.ring : 0;
    place.parity ^= round ? 1 : 0;
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
