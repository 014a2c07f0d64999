#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/cluster.cuh"
#include "ops/cuda/gemm/gemm_stages.cuh"

namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Adds up the sums of a tile over the two blocks of a cluster that divide k. Those of integers do
/// not depend on it; those of floats are the sum of two, in either order. Each block sends the
/// other one the half of the tokens that the other finishes, and adds what it gets to its own half.
/// A thread has the same places in both blocks. What it gets comes to where its warpgroup's results
/// leave (GemmShape::kOwnStaging).
template <class Shape>
struct HalfSums : GemmStages<Shape> {
  using Stages = GemmStages<Shape>;
  using Stages::lane, Stages::part;
  using Sum = typename Shape::Sum;
  static constexpr int kHalf = Shape::kSums / 2;
  static constexpr int kThreads = 128 * Shape::kWarpgroups;  // that multiply
  static_assert(kHalf % 4 == 0, "four sums are sent at a time");

  __device__ explicit HalfSums(const Stages& stages) : Stages(stages) {}

  /// By one thread.
  __device__ void init_barriers() const {
    init_barrier(full(), kThreads / 32);
    init_barrier(empty(), kThreads / 32);
  }

  /// By all multiplying threads. `parity`: of the number of tiles before this one, `first`: there
  /// are none. Each block waits here for all that the other one writes to it, so that either may
  /// end.
  __device__ __forceinline__ void add_up(const Sum (&sums)[Shape::kSums], Sum (&half)[kHalf],
                                         std::uint32_t parity, bool first) const {
    const bool upper = part() == 1;
    if (first) {
      wait_for_cluster();  // now the other block may be written to
    }
    wait_barrier_of_cluster(empty(), parity ^ 1);
    const std::uint32_t there = address_in(place(), 1 - part());
#pragma unroll
    for (int i = 0; i < kHalf; i += 4) {
      int sent[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sent[k] = bits_of(upper ? sums[i + k] : sums[kHalf + i + k]);
        half[i + k] = upper ? sums[kHalf + i + k] : sums[i + k];
      }
      asm volatile("st.shared::cluster.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(there + i * kStep),
                   "r"(sent[0]), "r"(sent[1]), "r"(sent[2]), "r"(sent[3])
                   : "memory");
    }
    tell_other(full());
    wait_barrier_of_cluster(full(), parity);
#pragma unroll
    for (int i = 0; i < kHalf; i += 4) {
      int got[4];
      asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(got[0]), "=r"(got[1]), "=r"(got[2]), "=r"(got[3])
                   : "r"(place() + i * kStep)
                   : "memory");
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        half[i + k] += sum_of(got[k]);
      }
    }
  }

  /// By all multiplying threads, when the results of a tile have left and others follow.
  __device__ void end_tile() const {
    tell_other(empty());
  }

 private:
  static constexpr int kStep = 128 * 4;  // bytes from a sum of a warpgroup's threads to the next
  static_assert(kHalf * kStep == Shape::kOwnBytes, "sums take the place of results");

  __device__ static int bits_of(int sum) {
    return sum;
  }
  __device__ static int bits_of(float sum) {
    return __float_as_int(sum);
  }
  __device__ static Sum sum_of(int bits) {
    if constexpr (std::is_same_v<Sum, float>) {
      return __int_as_float(bits);
    } else {
      return bits;
    }
  }

  // Of what comes from the other block: this thread's first four sums; the barriers.
  __device__ std::uint32_t place() const {
    return this->staging_of(static_cast<int>(threadIdx.x) / 128 - 1) +
           static_cast<int>(threadIdx.x) % 128 * 16;
  }
  __device__ std::uint32_t full() const {
    return this->staged_scales_of(Shape::kWarpgroups);
  }
  __device__ std::uint32_t empty() const {
    return full() + 8;
  }

  // Each warp arrives at the other block's barrier.
  __device__ void tell_other(std::uint32_t barrier) const {
    __syncwarp();
    if (lane() == 0) {
      arrive_after_writes_at(barrier, static_cast<std::uint32_t>(1 - part()));
    }
  }
};

#endif

}  // namespace nibble::ops::cuda
