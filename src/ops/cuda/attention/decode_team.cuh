#pragma once

#include "ops/cuda/attention/decode_step.cuh"

namespace nibble::ops::cuda::decode {

/// The warps that share an item and KV head: all of a block, whose parts are merged; or one, where
/// many short sequences have a page or a few each.
template <int kCount_>
struct Team {
  static constexpr int kCount = kCount_;
  static constexpr int kTeams = kWarps / kCount;  // of a block
  static_assert(kCount == 1 || kCount == kWarps);

  static __device__ int warp_of_block() { return static_cast<int>(threadIdx.x) / kWarp; }
  static __device__ int warp() { return warp_of_block() % kCount; }
  static __device__ int team_of_block() { return warp_of_block() / kCount; }
  /// Units of work go to blocks first, then to their teams.
  static __device__ int first_unit() {
    return team_of_block() * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  }
  static __device__ int stride() { return kTeams * static_cast<int>(gridDim.x); }
  static __device__ void sync() {
    if constexpr (kCount == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

using BlockTeam = Team<kWarps>;
using WarpTeam = Team<1>;

}  // namespace nibble::ops::cuda::decode
