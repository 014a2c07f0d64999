#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/bulk_copy.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/gemm/scaling.h"
#include "ops/cuda/gemm/store_tile.cuh"
#include "ops/cuda/gemm/tile_order.cuh"
#include "ops/cuda/gemm/weight_fragments.cuh"

/// The kernel for sm_90a. A block of threads computes tiles of 64 kWarpgroups rows x kTokens tokens,
/// one after the other: one warp copies, each warpgroup multiplies 64 rows. The blocks of a cluster take neighbouring
/// strips of rows and the same tokens; each reads its share of the tokens for all of them.
namespace nibble::ops::cuda {

/// Warpgroup 0 copies.
constexpr int gemm_threads(int warpgroups) {
  return 128 * (1 + warpgroups);
}

/// Bytes of a stage of the ring.
template <class Codes, int kTokens, Scaling kScaling>
struct GemmTraits {
  static constexpr bool kScalesInRing = kScaling == Scaling::kByGroupOfBoth;
  static constexpr int kInputBytes = kTokens * 128 * Codes::kSteps;
  static constexpr int kScaleBytes = kScalesInRing ? kTokens * 4 : 0;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Codes, int kTokens, int kWarpgroups, int kCluster, Scaling kScaling>
struct GemmKernel {
  using Traits = GemmTraits<Codes, kTokens, kScaling>;
  static constexpr bool kScalesInRing = Traits::kScalesInRing;
  static constexpr int kInputBytes = Traits::kInputBytes;
  static constexpr int kScaleBytes = Traits::kScaleBytes;
  using Sum = typename Codes::Sum;
  static constexpr int kSums = kTokens / 2;  // of a lane, for 64 rows
  static constexpr int kRows = 64 * kWarpgroups;

  const GemmArguments& a;
  const CUtensorMap& inputs;
  std::uint32_t memory;

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
  __device__ std::uint32_t inputs_of(int stage) const { return memory + stage * kInputBytes; }
  __device__ std::uint32_t units_of(int stage) const {
    return memory + a.ring.units + stage * kWarpgroups * a.slot_bytes;
  }
  __device__ std::uint32_t scales_in(int stage) const {
    return memory + a.ring.scales + stage * kScaleBytes;
  }
  __device__ std::uint32_t full(int stage) const { return memory + a.ring.full + stage * 8; }
  __device__ std::uint32_t empty(int stage) const { return memory + a.ring.empty + stage * 8; }

  __device__ static int rank() { return kCluster == 1 ? 0 : static_cast<int>(cluster_rank()); }
  __device__ static int first_tile() { return static_cast<int>(blockIdx.x) / kCluster; }
  __device__ static int clusters() { return static_cast<int>(gridDim.x) / kCluster; }
  __device__ int tiles() const { return a.strips * a.token_tiles; }
  __device__ OutputTile tile(int index) const {
    OutputTile found = tile_at(index, a.strips, a.token_tiles);
    found.strip = found.strip * kCluster + rank();
    return found;
  }

  // ---- the copying warps: one for inputs, one for units, one for scales ----

  // Calls `copy(unit, place)` for each unit of the tile when its stage is free.
  template <class Copy>
  __device__ void for_each_free_stage(Place& place, int begin, int end, Copy&& copy) const {
#pragma unroll 1
    for (int unit = begin; unit < end; ++unit) {
      wait_barrier(empty(place.stage), place.parity ^ 1);
      copy(unit, place.stage);
      advance(place);
    }
  }

  // By one thread.
  __device__ void copy_inputs() const {
    constexpr int kShare = kTokens / kCluster;  // the rest comes from the others of the cluster
    Place place;
    for (int index = first_tile(); index < tiles(); index += clusters()) {
      const int row = tile(index).tokens * kTokens + rank() * kShare;
      for_each_free_stage(place, 0, a.units_along_k, [&](int unit, int stage) {
        arrive_expecting(full(stage), kInputBytes);
#pragma unroll
        for (int step = 0; step < Codes::kSteps; ++step) {
          const int column = (unit * Codes::kSteps + step) * (128 / Codes::kSteps);
          const std::uint32_t to =
              inputs_of(stage) + step * kTokens * 128 + rank() * kShare * 128;
          if constexpr (kCluster == 1) {
            copy_box(to, inputs, column, row, full(stage));
          } else {
            copy_box_to(to, inputs, column, row, full(stage), (1u << kCluster) - 1);
          }
        }
      });
    }
  }

  // By one thread.
  __device__ void copy_units() const {
    Place place;
    for (int index = first_tile(); index < tiles(); index += clusters()) {
      const std::int64_t first_group = tile(index).strip * kWarpgroups;
      const int row_groups = max(0, min(kWarpgroups, a.row_groups - static_cast<int>(first_group)));
      const auto copy_from = [&](const std::uint8_t* source, std::int64_t pitch, int bytes,
                                 int stage) {
        arrive_expecting(full(stage), row_groups * bytes);
#pragma unroll
        for (int group = 0; group < kWarpgroups; ++group) {
          if (group < row_groups) {
            copy_bytes(units_of(stage) + group * a.slot_bytes, source + group * pitch, bytes,
                       full(stage));
          }
        }
      };
      const int bytes = 4 * a.tile_bytes;
      const std::int64_t pitch = static_cast<std::int64_t>(a.body_units) * bytes;
      const std::uint8_t* source = a.units + first_group * pitch;
      for_each_free_stage(place, 0, a.body_units, [&](int, int stage) {
        copy_from(source, pitch, bytes, stage);
        source += bytes;
      });
      for_each_free_stage(place, a.body_units, a.units_along_k, [&](int, int stage) {
        const int tail_bytes = 4 * a.tail_tile_bytes;
        copy_from(a.tail_units + first_group * tail_bytes, tail_bytes, tail_bytes, stage);
      });
    }
  }

  // The scales of groups of 128 inputs, by a warp: they need not lie together.
  __device__ void copy_scales() const {
    Place place;
    for (int index = first_tile(); index < tiles(); index += clusters()) {
      const int first_token = tile(index).tokens * kTokens;
      for_each_free_stage(place, 0, a.units_along_k, [&](int unit, int stage) {
#pragma unroll
        for (int i = lane(); i < kTokens; i += 32) {
          const int token = min(first_token + i, a.tokens - 1);
          asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(scales_in(stage) + 4 * i),
                       "l"(a.input_scales + token * a.token_stride + unit * a.group_stride)
                       : "memory");
        }
        arrive_after_copies(full(stage));
      });
    }
  }

  // Arrivals that make a stage full.
  static constexpr int kFullArrivals = kScalesInRing ? 2 + 32 : 2;

  __device__ void copy_all() const {
    const int copying_warp = static_cast<int>(threadIdx.x) / 32;
    if (copying_warp == 0 && lane() == 0) {
      copy_inputs();
    } else if (copying_warp == 1 && lane() == 0) {
      copy_units();
    } else if (kScalesInRing && copying_warp == 2) {
      copy_scales();
    }
    __syncwarp();
  }

  // ---- the multiplying warps ----

  __device__ int warp() const { return static_cast<int>(threadIdx.x) / 32 - 4; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int first_row(OutputTile at) const {
    return at.strip * kRows + warp() * kGemmTileRows;
  }
  __device__ std::uint32_t tile_of(int stage, int tile_bytes) const {
    return units_of(stage) + warp() / 4 * a.slot_bytes + warp() % 4 * tile_bytes;
  }

  // Gives a stage back to the copying warps of all blocks that write into it.
  __device__ void release(int stage) const {
    __syncwarp();
    if constexpr (kCluster == 1) {
      if (lane() == 0) {
        arrive(empty(stage));
      }
    } else if (lane() < kCluster) {
      arrive_at(empty(stage), lane());
    }
  }

  __device__ static void multiply_step(Sum (&sums)[kSums], Fragments& left,
                                       std::uint32_t right, bool add) {
    const std::uint64_t description = describe_operand(right);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      settle(left[i / 4][i % 4]);
    }
    begin_products();
#pragma unroll
    for (int product = 0; product < 4; ++product) {
      multiply(sums, left[product], description + 2 * product, add || product > 0);
    }
    commit_products();
  }

  template <int kStep>
  __device__ void load(typename Codes::Words& words, const Place& place) const {
    Codes::load(words, tile_of(place.stage, a.tile_bytes), kStep, lane(), a);
  }

  // The place of the unit after `unit` of `units`, when it has come. After the last one that is the same
  // place, whose words are read once more and not used.
  __device__ Place next_place(const Place& place, int unit, int units) const {
    Place next = place;
    if (unit + 1 < units) {
      advance(next);
    }
    wait_barrier(full(next.stage), next.parity);
    return next;
  }

  // Multiplies a step. Returns when all steps before have ended, whose stage is given back.
  template <int kStep>
  __device__ void step(Sum (&sums)[kSums], Fragments& left, const Place& place, int unit,
                       int& stage_before) const {
    multiply_step(sums, left, inputs_of(place.stage) + kStep * kTokens * 128,
                  kStep > 0 || unit > 0);
    wait_products<1>();
    if (kStep == 0) {
      if (unit > 0) {
        release(stage_before);
      }
      stage_before = place.stage;
    }
  }

  // One unit along k. The words of the next step are read before products begin, and become fragments while
  // they are under way; those that are fragments already are read then.
  __device__ void multiply_unit(Sum (&sums)[kSums], Fragments& left, Fragments& next_left,
                                Place& place, int& stage_before, int unit) const {
    typename Codes::Words words;
    Place next = place;
    if constexpr (Codes::kSteps == 2) {
      load<1>(words, place);
      step<0>(sums, left, place, unit, stage_before);
      Codes::expand(next_left, words, a);
      next = next_place(place, unit, a.units_along_k);
      load<0>(words, next);
      step<1>(sums, next_left, place, unit, stage_before);
      Codes::expand(left, words, a);
    } else if constexpr (Codes::kExpands) {
      next = next_place(place, unit, a.units_along_k);
      load<0>(words, next);
      step<0>(sums, left, place, unit, stage_before);
      Codes::expand(next_left, words, a);
    } else {
      step<0>(sums, left, place, unit, stage_before);
      next = next_place(place, unit, a.units_along_k);
      load<0>(words, next);
      Codes::expand(next_left, words, a);
    }
    place = next;
  }

  __device__ void multiply_tile(Sum (&sums)[kSums], Place& place) const {
    constexpr int kOther = 2 - Codes::kSteps;  // units with one step take turns with the fragments
    Fragments left[2];
    int stage_before = 0;
    int unit = 0;
    wait_barrier(full(place.stage), place.parity);
    typename Codes::Words words;
    load<0>(words, place);
    Codes::expand(left[0], words, a);
    for (; unit + 1 < a.units_along_k; unit += 2) {
      multiply_unit(sums, left[0], left[1], place, stage_before, unit);
      multiply_unit(sums, left[kOther], left[1 - kOther], place, stage_before, unit + 1);
    }
    if (unit < a.units_along_k) {
      multiply_unit(sums, left[0], left[1], place, stage_before, unit);
    }
    wait_products<0>();
    release(stage_before);
    advance(place);
  }

  __device__ void multiply_all() const {
    Place place;
    for (int index = first_tile(); index < tiles(); index += clusters()) {
      const OutputTile at = tile(index);
      Sum sums[kSums];
      multiply_tile(sums, place);
      const TileStore<kTokens> to{a, first_row(at), at.tokens * kTokens};
      if constexpr (kScaling == Scaling::kNone) {
        to.store([](int) { return 1.0f; }, [&](int i, int, float) { return sums[i]; });
      } else {
        const float2 scales = row_scales(first_row(at));
        to.store([&](int token) { return token_scale(token); },
                 [&](int i, int r, float scale) {
                   return __fmul_rn(
                       __fmul_rn(static_cast<float>(sums[i]), r == 0 ? scales.x : scales.y), scale);
                 });
      }
    }
  }

  // ---- with scales by group ----

  // Adds a group's scaled sums to the results.
  __device__ void promote(float (&results)[kSums], const int (&sums)[kSums], float2 scales,
                          std::uint32_t token_scales) const {
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
      float2 factors = {1.0f, 1.0f};
      if constexpr (kScalesInRing) {
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                     : "=f"(factors.x), "=f"(factors.y)
                     : "r"(token_scales + 32 * j + lane() % 4 * 8));
      }
#pragma unroll
      for (int i = 4 * j; i < 4 * j + 4; ++i) {
        const float sum = static_cast<float>(sums[i]);
        const float scale = i % 4 < 2 ? scales.x : scales.y;
        if constexpr (kScalesInRing) {
          results[i] = __fmaf_rn(__fmul_rn(sum, scale), i % 2 == 0 ? factors.x : factors.y,
                                 results[i]);
        } else {
          results[i] = __fmaf_rn(sum, scale, results[i]);
        }
      }
    }
  }

  // The words of a unit's tile, and the scales of its rows.
  template <class UnitCodes>
  struct Group {
    typename UnitCodes::Words words;
    __half2 scales;
  };
  template <class UnitCodes>
  __device__ void load_group(Group<UnitCodes>& group, int stage, int tile_bytes) const {
    const std::uint32_t tile = tile_of(stage, tile_bytes);
    UnitCodes::load(group.words, tile, 0, lane(), a);
    group.scales = scales_of(tile, UnitCodes::kCodeBytes, 0, lane() / 4);
  }

  // `units` units with codes of one kind, from `place` on. While one warpgroup promotes, the others
  // multiply. The next words are read before sums are promoted.
  template <class UnitCodes>
  __device__ void multiply_groups(float (&results)[kSums], Place& place, int units,
                                  int tile_bytes) const {
    wait_barrier(full(place.stage), place.parity);
    Group<UnitCodes> group;
    load_group(group, place.stage, tile_bytes);
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
      Fragments left;
      UnitCodes::expand(left, group.words, a);
      const float2 scales = scaled<UnitCodes>(group.scales);
      int sums[kSums];
      multiply_step(sums, left, inputs_of(place.stage), false);
      const Place next = next_place(place, unit, units);
      wait_products<0>();
      load_group(group, next.stage, tile_bytes);
      promote(results, sums, scales, scales_in(place.stage));
      release(place.stage);
      place = next;
    }
    advance(place);
  }

  __device__ void multiply_tile_by_group(float (&results)[kSums], Place& place) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      results[i] = 0.0f;
    }
    multiply_groups<Codes>(results, place, a.body_units, a.tile_bytes);
    if (kScalesInRing && a.units_along_k > a.body_units) {
      multiply_groups<Int8Codes>(results, place, 1, a.tail_tile_bytes);
    }
  }

  __device__ void multiply_all_by_group() const {
    Place place;
    for (int index = first_tile(); index < tiles(); index += clusters()) {
      const OutputTile at = tile(index);
      float results[kSums];
      multiply_tile_by_group(results, place);
      const TileStore<kTokens> to{a, first_row(at), at.tokens * kTokens};
      if constexpr (kScalesInRing) {
        to.store([](int) { return 1.0f; }, [&](int i, int, float) { return results[i]; });
      } else {
        to.store([&](int token) { return token_scale(token); },
                 [&](int i, int, float scale) { return __fmul_rn(results[i], scale); });
      }
    }
  }

  __device__ float token_scale(int token) const {
    return __ldg(a.input_scales + token * a.token_stride);
  }

  // Scales of rows g and g + 8 of this warp's tile, as they are in its first unit.
  __device__ float2 row_scales(int row) const {
    const std::int64_t group = row / kGemmUnitRows;
    if (group >= a.row_groups) {
      return {0.0f, 0.0f};
    }
    const std::uint8_t* tile = a.units + group * a.body_units * 4 * a.tile_bytes +
                               row % kGemmUnitRows / kGemmTileRows * a.tile_bytes;
    return scaled<Codes>(global_scales_of(tile, Codes::kCodeBytes, lane() / 4));
  }
  template <class UnitCodes>
  __device__ float2 scaled(__half2 scales) const {
    const float2 both = __half22float2(scales);
    const float factor = UnitCodes::scale_factor(a);
    return {both.x * factor, both.y * factor};  // by a power of 2
  }
};

template <class Codes, int kTokens, int kWarpgroups, int kCluster, Scaling kScaling>
__device__ void run_gemm(const GemmArguments& a, const CUtensorMap& inputs) {
  using Kernel = GemmKernel<Codes, kTokens, kWarpgroups, kCluster, kScaling>;
  extern __shared__ __align__(1024) std::uint8_t gemm_memory[];
  std::uint32_t memory = shared_address(gemm_memory);
  settle(memory);  // or it would be computed again and again
  const Kernel kernel{a, inputs, memory};
  if (threadIdx.x == 0) {
    prefetch_map(inputs);
    for (int stage = 0; stage < a.ring.stages; ++stage) {
      init_barrier(kernel.full(stage), Kernel::kFullArrivals);
      init_barrier(kernel.empty(stage), 4 * kWarpgroups * kCluster);
    }
    publish_barriers();
  }
  if constexpr (kCluster > 1) {
    sync_cluster();
  } else {
    __syncthreads();
  }
  launch_dependents();
  wait_for_predecessor();
  if (threadIdx.x < 128) {
    set_registers<kWarpgroups == 2 ? 40 : 32, false>();
    kernel.copy_all();
  } else {
    set_registers<kWarpgroups == 2 ? 232 : 160, true>();
    if constexpr (kScaling == Scaling::kByGroup || kScaling == Scaling::kByGroupOfBoth) {
      kernel.multiply_all_by_group();
    } else {
      kernel.multiply_all();
    }
  }
  if constexpr (kCluster > 1) {
    sync_cluster();  // nobody leaves while another may still write to it
  }
}

#endif

template <class Codes, int kTokens, int kWarpgroups, int kCluster, Scaling kScaling>
__global__ void __launch_bounds__(gemm_threads(kWarpgroups), 1)
    gemm_wgmma(const __grid_constant__ GemmArguments arguments,
               const __grid_constant__ CUtensorMap inputs) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  run_gemm<Codes, kTokens, kWarpgroups, kCluster, kScaling>(arguments, inputs);
#endif
}

}  // namespace nibble::ops::cuda
