#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/gemm/gemm_stages.cuh"
#include "ops/cuda/gemm/half_sums.cuh"
#include "ops/cuda/gemm/multiply_step.cuh"
#include "ops/cuda/gemm/row_scales.cuh"
#include "ops/cuda/gemm/stage_tile.cuh"
#include "ops/cuda/gemm/store_tile.cuh"
#include "ops/cuda/gemm/weight_fragments.cuh"

namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// What multiplying warps do, however sums are scaled.
template <class Shape>
struct GemmMultiplier : GemmStages<Shape> {
  using Codes = typename Shape::Codes;
  using Stages = GemmStages<Shape>;
  using Stages::a, Stages::advance, Stages::clusters, Stages::first_tile, Stages::full,
      Stages::inputs_of, Stages::lane, Stages::tile, Stages::tiles;
  using typename Stages::Place;
  using Sum = typename Shape::Sum;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr int kResultTokens = Shape::kResultTokens;
  static constexpr int kSums = Shape::kSums;

  const CUtensorMap& outputs;

  __device__ GemmMultiplier(const Stages& stages, const CUtensorMap& map)
      : Stages(stages), outputs(map) {}

  __device__ int warp() const { return static_cast<int>(threadIdx.x) / 32 - 4; }
  __device__ int first_row(OutputTile at) const {
    return at.strip * Shape::kRows + warp() * static_cast<int>(kTileRows);
  }
  __device__ std::uint32_t tile_of(int stage, int tile_bytes) const {
    return this->units_of(stage) + warp() / 4 * a.slot_bytes + warp() % 4 * tile_bytes;
  }

  // Gives a stage back to the copying warps of all blocks that write into it. `read`: bits_of_any()
  // of what was read of it and is not used yet (after_reads()).
  __device__ void release(int stage, std::uint32_t read = 0) const {
    __syncwarp();
    const std::uint32_t barrier = after_reads(this->empty(stage), read, a.tokens);
    if constexpr (Shape::kCluster == 1) {
      if (lane() == 0) {
        arrive(barrier);
      }
    } else if (lane() < Shape::kCluster) {
      arrive_at(barrier, lane());
    }
  }

  // The place of the unit after `unit` of `units`, when it has come. After the last one that is the
  // same place, whose words are read once more and not used.
  __device__ Place next_place(const Place& place, int unit, int units) const {
    Place next = place;
    if (unit + 1 < units) {
      advance(next);
    }
    wait_barrier(full(next.stage), next.parity);
    return next;
  }

  // No __ldg: the kernel before may still have been writing these when this one began.
  __device__ float token_scale(int token) const { return a.input_scales[token * a.token_stride]; }

  // Of the tokens of a tile, the first one whose results this block writes.
  __device__ int first_token(OutputTile at) const {
    return at.tokens * kTokens + this->part() * kResultTokens;
  }

  // A thread's share of the scales of these tokens, loaded before the products.
  struct TokenScales {
    static constexpr int kCount = Shape::kStaged.pays ? (kResultTokens + 127) / 128 : 0;
    float values[kCount > 0 ? kCount : 1];
  };
  __device__ TokenScales token_scales(OutputTile at) const {
    TokenScales scales = {};
    if constexpr (Shape::kScaledByToken) {
#pragma unroll
      for (int i = 0; i < TokenScales::kCount; ++i) {
        const int token = first_token(at) + i * 128 + static_cast<int>(threadIdx.x) % 128;
        scales.values[i] = token_scale(min(token, a.tokens - 1));
      }
    }
    return scales;
  }

  // Writes a tile, or this block's half of it. `value(i, r, scale)` is value i, of row r, with the
  // scale of its token.
  template <class Value>
  __device__ __forceinline__ void write(OutputTile at, const TokenScales& scales, Place& place,
                                        Value&& value) const {
    if constexpr (Shape::kStaged.pays) {
      if (a.staged) {
        if constexpr (Shape::kOwnStaging) {
          return write_apart(at, scales, value);
        } else {
          return write_staged(at, scales, place, value);
        }
      }
    }
    const TileStore<kResultTokens, GemmArguments> to{a, first_row(at), first_token(at)};
    if constexpr (Shape::kScaledByToken) {
      to.store([&](int token) { return token_scale(token); }, value);
    } else {
      to.store([](int) { return 1.0f; }, value);
    }
  }

  /// Until results have left memory that is theirs: behind the last tile, or sooner.
  __device__ void finish_writing() const {
    if constexpr (Shape::kOwnStaging) {
      if (a.staged) {
        StagedStore<Shape, kResultTokens>::finish();
      }
    }
  }

 private:
  // In memory that is theirs: they are on their way while the next tile is multiplied.
  template <class Value>
  __device__ __forceinline__ void write_apart(OutputTile at, const TokenScales& scales,
                                              Value& value) const {
    const int warpgroup = warp() / 4;
    StagedStore<Shape, kResultTokens>::finish();  // of the tile before
    store_staged(at, scales, this->staging_of(warpgroup), this->staged_scales_of(warpgroup), value);
  }

  // In the stage that is lent for it: inputs' memory holds the results, units' that of the scales.
  template <class Value>
  __device__ __forceinline__ void write_staged(OutputTile at, const TokenScales& scales,
                                               Place& place, Value& value) const {
    const int warpgroup = warp() / 4;
    wait_barrier(full(place.stage), place.parity);
    store_staged(at, scales, inputs_of(place.stage) + warpgroup * 2 * Shape::kStaged.piece_bytes,
                 this->units_of(place.stage) + warpgroup * a.slot_bytes, value);
    StagedStore<Shape, kResultTokens>::finish();
    release(place.stage);
    advance(place);
  }

  template <class Value>
  __device__ __forceinline__ void store_staged(OutputTile at, const TokenScales& scales,
                                               std::uint32_t pieces, std::uint32_t scales_at,
                                               Value& value) const {
    const StagedStore<Shape, kResultTokens> to{
        a, outputs, pieces, scales_at, at.strip * Shape::kRows + warp() / 4 * 64, first_token(at)};
#pragma unroll
    for (int i = 0; i < TokenScales::kCount && Shape::kScaledByToken; ++i) {
      const int token = i * 128 + static_cast<int>(threadIdx.x) % 128;
      if (kResultTokens % 128 == 0 || token < kResultTokens) {
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(scales_at + 4 * token), "f"(scales.values[i])
                     : "memory");
      }
    }
    if (Shape::kScaledByToken || Shape::kOwnStaging) {
      meet_in_warpgroup();
    }
    to.store(value);
  }
};

/// Multiplying warps whose sums run over all of k: they are scaled at the end, or need no scales.
template <class Shape>
struct GemmMultiplyByRow : GemmMultiplier<Shape> {
  using Multiplier = GemmMultiplier<Shape>;
  using Codes = typename Shape::Codes;
  using Left = typename Codes::Left;
  using Stages = GemmStages<Shape>;
  using Stages::a, Stages::advance, Stages::clusters, Stages::first_tile, Stages::full,
      Stages::inputs_of, Stages::lane, Stages::tile, Stages::tiles;
  using typename Stages::Place;
  using Sum = typename Shape::Sum;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr int kSums = Shape::kSums;
  using Multiplier::first_row, Multiplier::next_place, Multiplier::release, Multiplier::tile_of;

  using Multiplier::Multiplier;

  __device__ void run() const {
    Place place;
    [[maybe_unused]] std::uint32_t parity = 0;  // of the tile's number
    for (int index = first_tile(); index < tiles(); index += clusters()) {
      const OutputTile at = tile(index);
      Sum sums[kSums];
      const auto token_scales = this->token_scales(at);
      // `result(sum, r, scale)` is that of row r, with the scale of its token.
      const auto finish = [&](auto&& result) {
        if constexpr (Shape::kDividesK) {
          const HalfSums<Shape> both(*this);
          Sum half[kSums / 2];
          both.add_up(sums, half, parity, index == first_tile());
          parity ^= 1;
          this->write(at, token_scales, place,
                      [&](int i, int r, float scale) { return result(half[i], r, scale); });
          if (index + clusters() < tiles()) {
            this->finish_writing();
            both.end_tile();
          }
        } else {
          this->write(at, token_scales, place,
                      [&](int i, int r, float scale) { return result(sums[i], r, scale); });
        }
      };
      if constexpr (Shape::kScaling == Scaling::kNone) {
        multiply_tile(sums, first_row(at), place);
        finish([](Sum sum, int, float) { return sum; });
      } else {
        const __half2 loaded = row_scales_of<Codes>(a, first_row(at), lane());
        multiply_tile(sums, first_row(at), place);
        const float2 scales = scale_numbers<Codes>(a, loaded);
        finish([&](Sum sum, int r, float scale) {
          return __fmul_rn(__fmul_rn(static_cast<float>(sum), r == 0 ? scales.x : scales.y), scale);
        });
      }
    }
  }

 private:
  template <int kStep>
  __device__ void load(typename Codes::Words& words, const Place& place) const {
    Codes::load(words, tile_of(place.stage, a.tile_bytes), kStep, lane(), a);
  }

  // Multiplies a step. Returns when all steps before have ended, whose stage is given back.
  template <int kStep>
  __device__ void step(Sum (&sums)[kSums], Left& left, const Place& place, int unit,
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

  // One unit along k. The words of the next step are read before products begin, and become
  // fragments while they are under way; those that are fragments already are read then.
  __device__ void multiply_unit(Sum (&sums)[kSums], Left& left, Left& next_left,
                                const typename Codes::Rows& rows, Place& place, int& stage_before,
                                int unit) const {
    typename Codes::Words words;
    Place next = place;
    if constexpr (Codes::kSteps == 2) {
      load<1>(words, place);
      step<0>(sums, left, place, unit, stage_before);
      Codes::expand(next_left, words, rows, a);
      next = next_place(place, unit, this->units());
      load<0>(words, next);
      step<1>(sums, next_left, place, unit, stage_before);
      Codes::expand(left, words, rows, a);
    } else if constexpr (Codes::kExpands) {
      next = next_place(place, unit, this->units());
      load<0>(words, next);
      step<0>(sums, left, place, unit, stage_before);
      Codes::expand(next_left, words, rows, a);
    } else {
      step<0>(sums, left, place, unit, stage_before);
      next = next_place(place, unit, this->units());
      load<0>(words, next);
      Codes::expand(next_left, words, rows, a);
    }
    place = next;
  }

  __device__ void multiply_tile(Sum (&sums)[kSums], int row, Place& place) const {
    constexpr int kOther = 2 - Codes::kSteps;  // units with one step take turns with the fragments
    Left left[2];
    int stage_before = 0;
    int unit = 0;
    wait_barrier(full(place.stage), place.parity);
    typename Codes::Words words;
    load<0>(words, place);
    typename Codes::Rows rows;
    Codes::load_rows(rows, a, row, lane());
    Codes::expand(left[0], words, rows, a);
    for (; unit + 1 < this->units(); unit += 2) {
      multiply_unit(sums, left[0], left[1], rows, place, stage_before, unit);
      multiply_unit(sums, left[kOther], left[1 - kOther], rows, place, stage_before, unit + 1);
    }
    if (unit < this->units()) {
      multiply_unit(sums, left[0], left[1], rows, place, stage_before, unit);
    }
    wait_products<0>();
    release(stage_before);
    advance(place);
  }
};

#endif

}  // namespace nibble::ops::cuda
