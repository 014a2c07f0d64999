#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/cluster.cuh"
#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/gemm/scaling.h"
#include "ops/cuda/gemm/staged_shape.h"
#include "ops/cuda/gemm/tile_order.cuh"

namespace nibble::ops::cuda {

/// How a kernel of gemm_wgmma.cuh is made: a block of threads computes tiles of 64 kWarpgroups_
/// rows x kTokens_ tokens; kCluster_ blocks share the tokens that they read, or two divide k.
template <class Codes_, int kTokens_, int kWarpgroups_, int kCluster_, Scaling kScaling_,
          bool kDividesK_ = false>
struct GemmShape {
  using Codes = Codes_;
  using Sum = typename Codes::Sum;
  static constexpr int kTokens = kTokens_;
  static constexpr int kWarpgroups = kWarpgroups_;
  static constexpr int kCluster = kCluster_;
  static constexpr bool kDividesK = kDividesK_;
  static constexpr int kBlocks = kDividesK ? 2 : kCluster;  // of a cluster
  static_assert(kCluster == 1 || !kDividesK, "blocks share tokens or divide k");
  static constexpr Scaling kScaling = kScaling_;
  static constexpr bool kByGroup =
      kScaling == Scaling::kByGroup || kScaling == Scaling::kByGroupOfBoth;
  static_assert(!kDividesK || !kByGroup, "sums of groups are not divided");
  static constexpr bool kScalesInRing = kScaling == Scaling::kByGroupOfBoth;
  static constexpr bool kSendsBlocks = true;  // BlockOutput
  static constexpr bool kScaledByToken =
      kScaling == Scaling::kByRow || kScaling == Scaling::kByGroup;  // at the end
  static constexpr int kThreads = 128 * (1 + kWarpgroups);           // warpgroup 0 copies
  static constexpr int kSums = kTokens / 2;                          // of a lane, for 64 rows
  static constexpr int kRows = 64 * kWarpgroups;
  // Of a stage of the ring:
  static constexpr int kInputBytes = kTokens * 128 * Codes::kSteps;
  static constexpr int kScaleBytes = kScalesInRing ? kTokens * 4 : 0;
  static constexpr int kFullArrivals = kScalesInRing ? 2 + 32 : 2;  // that make it full
  static constexpr int kEmptyArrivals = 4 * kWarpgroups * kCluster;
  // Results on their way out, of the tokens of a tile that a block finishes. They have memory of
  // their own where a stage is too small for them, or where sums of the other block need it anyway;
  // else a stage is lent to the multiplying warps after each tile.
  static constexpr int kResultTokens = kDividesK ? kTokens / 2 : kTokens;
  static constexpr bool kOwnStaging =
      kDividesK || (kWarpgroups == 3 && kTokens == 128 && !kByGroup && Codes::kExpands);
  static constexpr int kOwnBytes = kDividesK ? kResultTokens * 64 * 4 : 16 * 1024;  // a warpgroup's
  static constexpr StagedShape kStaged =
      kOwnStaging ? own_staged_shape(kResultTokens, kOwnBytes)
                  : staged_shape(kResultTokens, kInputBytes / kWarpgroups);
  // Behind them: scales of tokens, and two barriers of HalfSums.
  static constexpr int kScalesOfResults = kWarpgroups * kResultTokens * 4;
  static constexpr int kStagingBytes =
      kOwnStaging ? kWarpgroups * kOwnBytes + (kScalesOfResults + 16 + 1023) / 1024 * 1024 : 0;
};

/// What the copying and the multiplying warps both know: where stages lie, and which tiles this
/// block computes.
template <class Shape>
struct GemmStages {
  const GemmArguments& a;
  std::uint32_t memory;  // address of the ring

  // A place in the ring. A barrier's phase ends each time the ring has gone round.
  struct Place {
    int stage = 0;
    std::uint32_t parity = 0;
  };
  __device__ void advance(Place& place) const {
    if (++place.stage == a.ring.stages) {
      place.stage = 0;
      place.parity ^= 1;
    }
  }

  // Addresses in shared memory.
  __device__ std::uint32_t inputs_of(int stage) const {
    return memory + stage * Shape::kInputBytes;
  }
  __device__ std::uint32_t units_of(int stage) const {
    return memory + a.ring.units + stage * Shape::kWarpgroups * a.slot_bytes;
  }
  __device__ std::uint32_t scales_in(int stage) const {
    return memory + a.ring.scales + stage * Shape::kScaleBytes;
  }
  // In front of the ring (GemmShape::kOwnStaging): of a warpgroup, results on their way out and the
  // scales of their tokens.
  __device__ std::uint32_t staging_of(int warpgroup) const {
    return memory - Shape::kStagingBytes + warpgroup * Shape::kOwnBytes;
  }
  __device__ std::uint32_t staged_scales_of(int warpgroup) const {
    return staging_of(Shape::kWarpgroups) + warpgroup * Shape::kResultTokens * 4;
  }
  __device__ std::uint32_t full(int stage) const { return memory + a.ring.full + stage * 8; }
  __device__ std::uint32_t empty(int stage) const { return memory + a.ring.empty + stage * 8; }

  __device__ static int rank() { return Shape::kCluster == 1 ? 0 : cluster_rank(); }
  __device__ static int part() { return Shape::kDividesK ? cluster_rank() : 0; }
  __device__ static int first_tile() { return static_cast<int>(blockIdx.x) / Shape::kBlocks; }
  __device__ static int clusters() { return static_cast<int>(gridDim.x) / Shape::kBlocks; }
  // The units along k that this block takes.
  __device__ int first_unit() const { return part() == 0 ? 0 : a.units_along_k / 2; }
  __device__ int end_unit() const {
    return Shape::kDividesK && part() == 0 ? a.units_along_k / 2 : a.units_along_k;
  }
  __device__ int units() const { return end_unit() - first_unit(); }
  __device__ int tiles() const { return a.strips * a.token_tiles; }
  __device__ OutputTile tile(int index) const {
    OutputTile found = tile_at(index, a.strips, a.token_tiles);
    found.strip = found.strip * Shape::kCluster + rank();
    return found;
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
};

}  // namespace nibble::ops::cuda
