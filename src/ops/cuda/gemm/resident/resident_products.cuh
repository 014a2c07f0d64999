#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/bulk_copy.cuh"
#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/gemm/multiply_step.cuh"
#include "ops/cuda/gemm/resident/resident_stages.cuh"
#include "ops/cuda/gemm/row_scales.cuh"
#include "ops/cuda/gemm/stage_tile.cuh"
#include "ops/cuda/gemm/store_tile.cuh"

namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The multiplying warps. Of all strips of all parts of a block, one warpgroup has the first, the
/// third, and so on, the other those between. Who has the turn takes units of weights from their
/// slots, which are filled in the order of the strips.
template <class Shape>
struct ResidentProducts : ResidentStages<Shape> {
  using Stages = ResidentStages<Shape>;
  using Stages::a, Stages::advance, Stages::empty, Stages::full, Stages::layout, Stages::memory;
  using typename Stages::Part, typename Stages::Place;
  using Codes = typename Shape::Codes;
  using Sum = typename Shape::Sum;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr int kSums = Shape::kSums;

  const CUtensorMap& outputs;

  __device__ ResidentProducts(const Stages& stages, const CUtensorMap& map)
      : Stages(stages), outputs(map) {}

  __device__ void run() const {
    if (a.staged && threadIdx.x == 0) {
      prefetch_map(outputs);
    }
    Place place;
    int turn = 0;  // the warpgroup that has the next strip
    if (warpgroup() == 1) {
      give_turn();
      skip_strip(place);
    }
    this->each_part([&](const Part& part, std::uint32_t parity) {
      load_scales(part);
      for (int strip = part.begin + (warpgroup() ^ turn); strip < part.end;
           strip += kResidentWarpgroups) {
        compute_strip(part, strip, parity, place);
        skip_strip(place);
      }
      turn ^= (part.end - part.begin) % kResidentWarpgroups;
      __syncwarp();
      if (lane() == 0) {
        arrive(this->inputs_empty());
      }
    });
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32 % 4; }
  // By a shuffle, so that the compiler knows that a warp goes through loops together: it keeps what
  // products need in uniform registers then.
  __device__ static int warpgroup() {
    return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  }

  // Named barriers: 0 and 1 are meet_in_warpgroup()'s, 2 and 3 the turns.
  __device__ static void await_turn() {
    asm volatile("bar.sync %0, %1;" ::"r"(2 + warpgroup()), "n"(Shape::kMultiplying) : "memory");
  }
  __device__ static void give_turn() {
    asm volatile("bar.arrive %0, %1;" ::"r"(3 - warpgroup()), "n"(Shape::kMultiplying) : "memory");
  }

  // Passes over the units of a strip that the other warpgroup has.
  __device__ void skip_strip(Place& place) const {
    for (int unit = 0; unit < a.units_along_k; ++unit) {
      advance(place);
    }
  }

  __device__ std::uint32_t scales() const {
    return memory + layout.scales + warpgroup() * kTokens * 4;
  }

  // Each warpgroup has its own, which it reads when it has met.
  __device__ void load_scales(const Part& part) const {
    meet_in_warpgroup();  // those of the last part were read
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x) % 128; i < kTokens; i += 128) {
      // No __ldg: the kernel before may still have been writing these when this one began.
      const int token = min(part.first_token + i, a.tokens - 1);
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(scales() + 4 * i),
                   "f"(a.input_scales[token * a.token_stride])
                   : "memory");
    }
    meet_in_warpgroup();
  }

  __device__ void compute_strip(const Part& part, int strip, std::uint32_t parity,
                                Place& place) const {
    const int row = strip * static_cast<int>(kUnitRows) + warp() * static_cast<int>(kTileRows);
    const __half2 loaded = row_scales_of<Codes>(a, row, lane());
    Sum sums[kSums];
    multiply_strip(sums, part.last && strip + 1 == part.end, parity, place);
    const float2 scales = scale_numbers<Codes>(a, loaded);
    write(part.first_token, strip, [&](int i, int r, float scale) {
      return __fmul_rn(__fmul_rn(static_cast<float>(sums[i]), r == 0 ? scales.x : scales.y), scale);
    });
  }

  // Reads the words of this warp's 16 rows of the unit in a slot. Returns the slot.
  __device__ int take(typename Codes::Words& words, Place& place) const {
    wait_barrier(full(place.slot), place.parity);
    Codes::load(words, this->unit_in(place.slot) + warp() * a.tile_bytes, 0, lane(), a);
    const int slot = place.slot;
    advance(place);
    return slot;
  }

  // Gives the slot back that these words were read of.
  __device__ void release(int slot, const typename Codes::Words& words) const {
    __syncwarp();
    const std::uint32_t read = bits_of_any(words);
    if (lane() == 0) {
      arrive(after_reads(empty(slot), read, a.tokens));
    }
  }

  // Words that are fragments already are copied by an instruction that the compiler can't leave
  // out: it would let products wait for one another where loads write what they read (C7513).
  __device__ void expand(Fragments& left, const typename Codes::Words& words) const {
    Codes::expand(left, words, typename Codes::Rows(), a);
    if constexpr (!Codes::kExpands) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        left[i / 4][i % 4] ^= unknown_zero(a.tokens);
      }
    }
  }

  // The words of the next unit are read before a unit is multiplied, and become fragments when the
  // one before it has ended.
  __device__ void multiply_strip(Sum (&sums)[kSums], bool last, std::uint32_t parity,
                                 Place& place) const {
    typename Codes::Words words;
    Fragments left[2];
    await_turn();
    const int slot = take(words, place);
    expand(left[0], words);
    release(slot, words);
    int unit = 0;
    for (; unit + 1 < a.units_along_k; unit += 2) {
      multiply_unit(sums, left[0], left[1], unit, parity, last, place);
      multiply_unit(sums, left[1], left[0], unit + 1, parity, last, place);
    }
    if (unit < a.units_along_k) {
      multiply_unit(sums, left[0], left[1], unit, parity, last, place);
    }
    wait_products<0>();
    settle_all(sums);
  }

  __device__ __forceinline__ void multiply_unit(Sum (&sums)[kSums], Fragments& left,
                                                Fragments& next_left, int unit,
                                                std::uint32_t parity, bool last,
                                                Place& place) const {
    typename Codes::Words words = {};
    const bool more = unit + 1 < a.units_along_k;
    int slot = 0;
    // Before the turn goes on: whoever gets it may have the next part, and would take the inputs'
    // phase before this one for the one behind it.
    wait_barrier(this->inputs_full(unit), parity);
    if (more) {
      slot = take(words, place);
    } else if (!last) {
      give_turn();
    }
    multiply_step(sums, left, this->inputs_of(unit), unit > 0);
    if (more) {
      release(slot, words);  // when the products are under way
    }
    wait_products<1>();
    expand(next_left, words);
  }

  // `value(i, r, scale)` is value i, of row r, with the scale of its token.
  template <class Value>
  __device__ __forceinline__ void write(int first_token, int strip, Value&& value) const {
    const int first_row = strip * static_cast<int>(kUnitRows);
    std::uint32_t scales_at = scales();
    settle(first_token);  // or the address of each result would be kept from strip to strip
    settle(scales_at);
    if (a.staged) {
      const StagedStore<Shape> to{
          a,         outputs,   memory + layout.pieces + warpgroup() * kResidentPieceBytes,
          scales_at, first_row, first_token};
      to.store(value);
      return StagedStore<Shape>::finish();
    }
    const TileStore<kTokens, GemmArguments, false> to{
        a, first_row + warp() * static_cast<int>(kTileRows), first_token};
    to.store([&](int token) { return a.input_scales[token * a.token_stride]; }, value);
  }
};

#endif

}  // namespace nibble::ops::cuda
