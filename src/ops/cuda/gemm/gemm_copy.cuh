#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/bulk_copy.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/gemm/gemm_stages.cuh"

namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// The copying warps: one for inputs, one for units, one for scales.
template <class Shape>
struct GemmCopy : GemmStages<Shape> {
  using Codes = typename Shape::Codes;
  using Stages = GemmStages<Shape>;
  using Stages::a, Stages::advance, Stages::clusters, Stages::empty, Stages::end_unit,
      Stages::first_tile, Stages::first_unit, Stages::full, Stages::lane, Stages::rank,
      Stages::tile, Stages::tiles;
  using typename Stages::Place;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr int kCluster = Shape::kCluster;
  static constexpr int kWarpgroups = Shape::kWarpgroups;

  const CUtensorMap& inputs;

  __device__ GemmCopy(const Stages& stages, const CUtensorMap& map) : Stages(stages), inputs(map) {}

  __device__ void run() const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 0 && lane() == 0) {
      wait_for_predecessor();
      copy_inputs();
    } else if (warp == 1 && lane() == 0) {
      copy_units();  // weights, which no kernel before writes
    } else if (Shape::kScalesInRing && warp == 2) {
      wait_for_predecessor();
      copy_scales();
    }
    __syncwarp();
  }

 private:
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

  // After a tile: a stage that comes without anything in it.
  __device__ void lend_stage(Place& place) const {
    if (Shape::kStaged.pays && !Shape::kOwnStaging && a.staged) {
      for_each_free_stage(place, 0, 1, [&](int, int stage) { arrive(full(stage)); });
    }
  }

  // By one thread.
  __device__ void copy_inputs() const {
    constexpr int kShare = kTokens / kCluster;  // the rest comes from the others of the cluster
    Place place;
    for (int index = first_tile(); index < tiles(); index += clusters()) {
      const int row = tile(index).tokens * kTokens + rank() * kShare;
      for_each_free_stage(place, first_unit(), end_unit(), [&](int unit, int stage) {
        arrive_expecting(full(stage), Shape::kInputBytes);
#pragma unroll
        for (int step = 0; step < Codes::kSteps; ++step) {
          const int column = (unit * Codes::kSteps + step) * (128 / Codes::kSteps);
          const std::uint32_t to =
              this->inputs_of(stage) + step * kTokens * 128 + rank() * kShare * 128;
          if constexpr (kCluster == 1) {
            copy_box(to, inputs, column, row, full(stage));
          } else {
            copy_box_to(to, inputs, column, row, full(stage), (1u << kCluster) - 1);
          }
        }
      });
      lend_stage(place);
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
            copy_bytes(this->units_of(stage) + group * a.slot_bytes, source + group * pitch, bytes,
                       full(stage));
          }
        }
      };
      const int bytes = 4 * a.tile_bytes;
      const std::int64_t pitch = static_cast<std::int64_t>(a.body_units) * bytes;
      const std::uint8_t* source = a.units + first_group * pitch + first_unit() * bytes;
      const int end_of_body = min(end_unit(), a.body_units);
      for_each_free_stage(place, first_unit(), end_of_body, [&](int, int stage) {
        copy_from(source, pitch, bytes, stage);
        source += bytes;
      });
      for_each_free_stage(place, max(first_unit(), a.body_units), end_unit(), [&](int, int stage) {
        const int tail_bytes = 4 * a.tail_tile_bytes;
        copy_from(a.tail_units + first_group * tail_bytes, tail_bytes, tail_bytes, stage);
      });
      lend_stage(place);
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
          asm volatile(
              "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(this->scales_in(stage) + 4 * i),
              "l"(a.input_scales + token * a.token_stride + unit * a.group_stride)
              : "memory");
        }
        arrive_after_copies(full(stage));
      });
      lend_stage(place);
    }
  }
};

#endif

}  // namespace nibble::ops::cuda
