#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/bulk_copy.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/medium_batch/shape.cuh"

namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// What the copying warps do: a thread for inputs, one for weights, a warp for scales of inputs.
template <class Shape>
struct MediumBatchCopy : MediumBatchStages<Shape> {
  using Stages = MediumBatchStages<Shape>;
  using Stages::a;
  using typename Stages::Place;

  __device__ explicit MediumBatchCopy(const Stages& stages) : Stages(stages) {}

  __device__ void copy_inputs(const CUtensorMap& inputs) const {
    for_each_pass([&](Place& place) {
      for_each_free_stage(place, [&](int unit, const Place& stage) {
        arrive_expecting(stage.full(), Shape::kInputBytes + Shape::kSumBytes);
#pragma unroll
        for (int box = 0; box < Shape::kBoxes; ++box) {
          copy_box(stage.inputs() + box * Shape::kBoxBytes, inputs,
                   (unit * Shape::kBoxes + box) * kBoxColumns, 0, stage.full());
        }
        if constexpr (Shape::kHasSums) {
          copy_bytes(stage.extras(), a.sums + static_cast<std::int64_t>(unit) * a.sum_stride,
                     Shape::kSumBytes, stage.full());
        }
      });
    });
  }

  // Lane i copies scales i, i + 32, ... of a stage; tokens that are not there have the last one's.
  __device__ void copy_scales() const {
    constexpr int kScales = Shape::kHasScales ? Shape::kScales : 1;
    for_each_pass([&](Place& place) {
      for_each_free_stage(place, [&](int unit, const Place& stage) {
#pragma unroll
        for (int i = this->lane(); i < 4 * kScales; i += 32) {
          const int token = this->token_of(this->total_of(i % kScales), i / kScales);
          asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(stage.extras() + 4 * i),
                       "l"(a.scales + min(token, a.tokens - 1) * a.scale_stride + unit)
                       : "memory");
        }
        arrive_after_copies(stage.full());
      });
    });
  }

  __device__ void copy_weights() const {
    const auto share = this->share();
    Place place = this->first_place();
    int early = kEarlyStages;
#pragma unroll 1
    for (int tile = share.begin; tile < share.end; tile += Shape::kTiles) {
      const int count = min(Shape::kTiles, share.end - tile);
      Run runs[Shape::kRowGroups + 1];
      find_runs(runs, tile, count);
      for_each_free_stage(place, [&](int, const Place& stage) {
        if (--early == 0) {
          wait_for_predecessor();
        }
        arrive_expecting(stage.full(), count * Shape::Decoder::kTileBytes);
#pragma unroll
        for (Run& run : runs) {
          if (run.bytes > 0) {
            copy_bytes(stage.tiles() + run.at, run.source, run.bytes, stage.full());
            run.source += static_cast<int>(kTiles) * Shape::Decoder::kTileBytes;
          }
        }
      });
    }
  }

 private:
  static constexpr int kBoxColumns = Shape::kHalf ? 64 : 128;  // 128 bytes
  /// Stages that are filled before the predecessor has ended: its last loads, and the inputs, wait
  /// behind what is asked for here.
  static constexpr int kEarlyStages = 64 * 1024 / Shape::kWeightBytes + 1;

  /// Row tiles of one row group, which lie together.
  struct Run {
    const std::byte* source;  // of the next unit
    int at;                   // in a stage
    int bytes;
  };
  template <int kRuns>
  __device__ void find_runs(Run (&runs)[kRuns], int tile, int count) const {
    constexpr int kAll = static_cast<int>(kTiles);
    int done = 0;
#pragma unroll
    for (Run& run : runs) {
      const int length = min(count - done, kAll - tile % kAll);
      const std::int64_t first =
          (static_cast<std::int64_t>(tile / kAll) * a.blocks + this->begin()) * kAll + tile % kAll;
      run = {a.units + first * Shape::Decoder::kTileBytes, done * Shape::Decoder::kTileBytes,
             length * Shape::Decoder::kTileBytes};
      done += length;
      tile += length;
    }
  }

  // Calls pass(place) for each pass over k.
  template <class Pass>
  __device__ void for_each_pass(Pass&& pass) const {
    const auto share = this->share();
    Place place = this->first_place();
#pragma unroll 1
    for (int tile = share.begin; tile < share.end; tile += Shape::kTiles) {
      pass(place);
    }
  }

  // Calls copy(unit, place) for all units along k when their stage is free.
  template <class Copy>
  __device__ void for_each_free_stage(Place& place, Copy&& copy) const {
#pragma unroll 1
    for (int unit = this->begin(); unit < this->end(); ++unit) {
      wait_barrier(place.empty(), place.parity ^ 1);
      copy(unit, place);
      this->step(place, 1);
    }
  }
};

#endif

}  // namespace nibble::ops::cuda
