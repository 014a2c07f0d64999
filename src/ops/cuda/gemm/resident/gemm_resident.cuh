#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/bulk_copy.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/gemm/multiply_step.cuh"
#include "ops/cuda/gemm/resident/resident_shape.h"
#include "ops/cuda/gemm/row_scales.cuh"
#include "ops/cuda/gemm/stage_tile.cuh"
#include "ops/cuda/gemm/store_tile.cuh"

/// The kernel for sm_90a, short rows and many tokens: all inputs of a tile of tokens lie in shared
/// memory, and strips of 64 rows of the weights go by, from global memory into registers. Two
/// warpgroups take turns: while one multiplies, the other writes the results of its strip. So the
/// products of rows of 768 hide what their results cost.
namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Shape>
struct ResidentProducts {
  using Codes = typename Shape::Codes;
  using Sum = typename Shape::Sum;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr int kSums = Shape::kSums;

  const GemmArguments& a;
  const CUtensorMap& inputs;
  const CUtensorMap& outputs;
  const ResidentLayout layout;
  const std::uint32_t memory;  // address of this block's shared memory

  // A tile of tokens and some strips of rows.
  struct Part {
    int first_token = 0;
    int begin = 0;  // strips
    int end = 0;
  };
  __device__ int parts() const { return a.token_tiles * a.parts; }
  __device__ Part part(int number) const {
    const int piece = number / a.token_tiles;
    return {number % a.token_tiles * kTokens, piece * a.strips / a.parts,
            (piece + 1) * a.strips / a.parts};
  }

  __device__ void init() const {
    if (threadIdx.x == 0) {
      prefetch_map(inputs);
      if (a.staged) {
        prefetch_map(outputs);
      }
      for (int unit = 0; unit < a.units_along_k; ++unit) {
        init_barrier(full(unit), 1);
      }
      publish_barriers();
    }
    meet();
  }

  __device__ void run() const {
    std::uint32_t parity = 0;
    for (int number = static_cast<int>(blockIdx.x); number < parts();
         number += static_cast<int>(gridDim.x)) {
      const Part at = part(number);
      load_inputs(at);
      meet();  // before scales of tokens are read
      multiply_part(at, parity);
      meet();  // before others take the place of the inputs
      parity ^= 1;
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32 % 4; }
  // By a shuffle, so that the compiler knows that a warp goes through loops together: it keeps what
  // products need in uniform registers then.
  __device__ static int warpgroup() {
    return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  }
  __device__ std::uint32_t full(int unit) const { return memory + layout.barriers + unit * 8; }

  // Named barriers: 0 and 1 are meet_in_warpgroup()'s, 2 and 3 the turns, 4 that of the block.
  __device__ static void meet() {
    asm volatile("bar.sync 4, %0;" ::"n"(Shape::kThreads) : "memory");
  }
  __device__ static void await_turn() {
    asm volatile("bar.sync %0, %1;" ::"r"(2 + warpgroup()), "n"(Shape::kThreads) : "memory");
  }
  __device__ static void give_turn() {
    asm volatile("bar.arrive %0, %1;" ::"r"(3 - warpgroup()), "n"(Shape::kThreads) : "memory");
  }

  __device__ void load_inputs(Part at) const {
    if (threadIdx.x == 0) {
      for (int unit = 0; unit < a.units_along_k; ++unit) {
        arrive_expecting(full(unit), layout.unit_bytes);
        copy_box(memory + unit * layout.unit_bytes, inputs, unit * static_cast<int>(kUnitInputs),
                 at.first_token, full(unit));
      }
    }
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kTokens) {
      // No __ldg: the kernel before may still have been writing these when this one began.
      const int token = min(at.first_token + thread, a.tokens - 1);
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(memory + layout.scales + 4 * thread),
                   "f"(a.input_scales[token * a.token_stride])
                   : "memory");
    }
  }

  // Warpgroup 0 has the first turn, and one strip more where their number is odd.
  __device__ void multiply_part(Part at, std::uint32_t parity) const {
    if (warpgroup() == 1) {
      give_turn();
    }
    for (int strip = at.begin + warpgroup(); strip < at.end; strip += kResidentWarpgroups) {
      const int row = strip * static_cast<int>(kUnitRows) + warp() * static_cast<int>(kTileRows);
      const __half2 loaded = row_scales_of<Codes>(a, row, lane());
      Sum sums[kSums];
      multiply_strip(sums, strip, parity, strip + 1 < at.end);
      const float2 scales = scale_numbers<Codes>(a, loaded);
      write(at.first_token, strip, [&](int i, int r, float scale) {
        return __fmul_rn(__fmul_rn(static_cast<float>(sums[i]), r == 0 ? scales.x : scales.y),
                         scale);
      });
    }
  }

  // The words of a unit of this warp's 16 rows. Behind the last unit they are read once more, and
  // not used.
  __device__ void load(typename Codes::Words& words, const std::uint8_t* tile, int unit) const {
    const int at = min(unit, a.units_along_k - 1) * 4 * a.tile_bytes;
    Codes::load(words, tile + at, 0, lane(), a);
  }

  // Words that are fragments already are copied by an instruction that the compiler can't leave
  // out: it would let products wait for one another where loads write what they read (C7513).
  __device__ void expand(Fragments& left, const typename Codes::Words& words) const {
    Codes::expand(left, words, typename Codes::Rows(), a);
    if constexpr (!Codes::kExpands) {
      const auto nothing = static_cast<std::uint32_t>(a.tokens >> 31);
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        left[i / 4][i % 4] ^= nothing;
      }
    }
  }

  // The words of the next unit are on their way while a unit is multiplied, and become fragments
  // when the one before it has ended.
  __device__ void multiply_strip(Sum (&sums)[kSums], int strip, std::uint32_t parity,
                                 bool other_follows) const {
    const std::uint8_t* tile =
        a.units + static_cast<std::int64_t>(strip) * a.units_along_k * 4 * a.tile_bytes +
        warp() * a.tile_bytes;
    typename Codes::Words words;
    Fragments left[2];
    load(words, tile, 0);
    expand(left[0], words);
    await_turn();
    int unit = 0;
    for (; unit + 1 < a.units_along_k; unit += 2) {
      multiply_unit(sums, left[0], left[1], tile, unit, parity);
      multiply_unit(sums, left[1], left[0], tile, unit + 1, parity);
    }
    if (unit < a.units_along_k) {
      multiply_unit(sums, left[0], left[1], tile, unit, parity);
    }
    if (other_follows) {
      give_turn();
    }
    wait_products<0>();
    settle_all(sums);
  }

  __device__ __forceinline__ void multiply_unit(Sum (&sums)[kSums], Fragments& left,
                                                Fragments& next_left, const std::uint8_t* tile,
                                                int unit, std::uint32_t parity) const {
    typename Codes::Words words;
    load(words, tile, unit + 1);
    wait_barrier(full(unit), parity);
    multiply_step(sums, left, memory + unit * layout.unit_bytes, unit > 0);
    wait_products<1>();
    expand(next_left, words);
  }

  // `value(i, r, scale)` is value i, of row r, with the scale of its token.
  template <class Value>
  __device__ __forceinline__ void write(int first_token, int strip, Value&& value) const {
    const int first_row = strip * static_cast<int>(kUnitRows);
    std::uint32_t scales = memory + layout.scales;
    settle(first_token);  // or the address of each result would be kept from strip to strip
    settle(scales);
    if (a.staged) {
      const StagedStore<Shape> to{
          a,      outputs,   memory + layout.pieces + warpgroup() * kResidentPieceBytes,
          scales, first_row, first_token};
      return to.store(value);
    }
    const TileStore<kTokens, GemmArguments> to{a, first_row + warp() * static_cast<int>(kTileRows),
                                               first_token};
    to.store([&](int token) { return a.input_scales[token * a.token_stride]; }, value);
  }
};

#endif

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    gemm_resident(const __grid_constant__ GemmArguments arguments,
                  const __grid_constant__ CUtensorMap inputs,
                  const __grid_constant__ CUtensorMap outputs) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) std::uint8_t resident_memory[];
  std::uint32_t memory = shared_address(resident_memory);
  settle(memory);
  const ResidentProducts<Shape> products{
      arguments, inputs, outputs, resident_layout(Shape::kTokens, arguments.units_along_k), memory};
  products.init();
  launch_dependents();
  wait_for_predecessor();
  products.run();
#endif
}

}  // namespace nibble::ops::cuda
