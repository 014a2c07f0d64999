#pragma once

#include "ops/cuda/gemm/gemm_multiply.cuh"

namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Multiplying warps whose sums run over one group of 128: they are scaled and added to results in
/// float32.
template <class Shape>
struct GemmMultiplyByGroup : GemmMultiplier<Shape> {
  using Multiplier = GemmMultiplier<Shape>;
  using Codes = typename Shape::Codes;
  using Stages = GemmStages<Shape>;
  using Stages::a, Stages::advance, Stages::clusters, Stages::first_tile, Stages::full,
      Stages::inputs_of, Stages::lane, Stages::tile, Stages::tiles;
  using typename Stages::Place;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr int kSums = Shape::kSums;
  static constexpr bool kScalesInRing = Shape::kScalesInRing;
  using Multiplier::first_row, Multiplier::next_place, Multiplier::release, Multiplier::tile_of;

  using Multiplier::Multiplier;

  __device__ void run() const {
    Place place;
    for (int index = first_tile(); index < tiles(); index += clusters()) {
      const OutputTile at = tile(index);
      float results[kSums];
      const auto token_scales = this->token_scales(at);
      typename Codes::Rows rows;
      Codes::load_rows(rows, a, first_row(at), lane());
      multiply_tile_by_group(results, rows, place);
      this->write(at, token_scales, place, [&](int i, int, float scale) {
        return kScalesInRing ? results[i] : __fmul_rn(results[i], scale);
      });
    }
  }

 private:
  // Adds a group's scaled sums to the results. Returns bits of all scales that it read.
  __device__ std::uint32_t promote(float (&results)[kSums], const int (&sums)[kSums], float2 scales,
                                   std::uint32_t token_scales) const {
    std::uint32_t read = 0;
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
      float2 factors = {1.0f, 1.0f};
      if constexpr (kScalesInRing) {
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                     : "=f"(factors.x), "=f"(factors.y)
                     : "r"(token_scales + 32 * j + lane() % 4 * 8));
        read |= __float_as_uint(factors.x);
      }
#pragma unroll
      for (int i = 4 * j; i < 4 * j + 4; ++i) {
        const float sum = static_cast<float>(sums[i]);
        const float scale = i % 4 < 2 ? scales.x : scales.y;
        if constexpr (kScalesInRing) {
          results[i] =
              __fmaf_rn(__fmul_rn(sum, scale), i % 2 == 0 ? factors.x : factors.y, results[i]);
        } else {
          results[i] = __fmaf_rn(sum, scale, results[i]);
        }
      }
    }
    return read;
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
  __device__ void multiply_groups(float (&results)[kSums], const typename UnitCodes::Rows& rows,
                                  Place& place, int units, int tile_bytes) const {
    wait_barrier(full(place.stage), place.parity);
    Group<UnitCodes> group;
    load_group(group, place.stage, tile_bytes);
    int stage_before = place.stage;
    std::uint32_t read = 0;
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
      typename UnitCodes::Left left;
      UnitCodes::expand(left, group.words, rows, a);
      const float2 scales = in_units(scale_numbers<UnitCodes>(a, group.scales), rows);
      int sums[kSums];
      multiply_step(sums, left, inputs_of(place.stage), false);
      if (unit > 0) {
        release(stage_before, read);
      }
      const Place next = next_place(place, unit, units);
      wait_products<0>();
      load_group(group, next.stage, tile_bytes);
      read = promote(results, sums, scales, this->scales_in(place.stage));
      stage_before = place.stage;
      place = next;
    }
    release(stage_before, read);
    advance(place);
  }

  __device__ void multiply_tile_by_group(float (&results)[kSums], const typename Codes::Rows& rows,
                                         Place& place) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      results[i] = 0.0f;
    }
    multiply_groups<Codes>(results, rows, place, a.body_units, a.tile_bytes);
    if (kScalesInRing && a.units_along_k > a.body_units) {
      multiply_groups<Int8Codes>(results, {}, place, 1, a.tail_tile_bytes);
    }
  }
};

#endif

}  // namespace nibble::ops::cuda
