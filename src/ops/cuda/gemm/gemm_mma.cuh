#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/gemm/mma_operands.cuh"
#include "ops/cuda/gemm/right_rows.h"
#include "ops/cuda/gemm/scaling.h"
#include "ops/cuda/gemm/store_tile.cuh"
#include "ops/cuda/gemm/tile_order.cuh"
#include "ops/cuda/gemm/weight_fragments.cuh"

/// The kernel for every device from sm_80 on: products of one warp (mma.sync), fed by cp.async. A
/// block of threads computes one tile of 128 rows x 128 tokens; its eight warps take 32 rows x 64
/// tokens each.
namespace nibble::ops::cuda {

inline constexpr int kMmaThreads = 256;
inline constexpr int kMmaRows = 128;
inline constexpr int kMmaTokens = 128;

/// Copies 16 (kBytes = 4: 4) bytes from global into shared memory, or zeros where not `inside`.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* target, const void* source, bool inside) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(target));
  const int bytes = inside ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(source), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(source), "r"(bytes)
                 : "memory");
  }
}

template <class Codes, Scaling kScaling>
struct MmaKernel {
  using Sum = typename Codes::Sum;
  using Operands = MmaOperands<Codes>;
  static constexpr bool kByGroup =
      kScaling == Scaling::kByGroup || kScaling == Scaling::kByGroupOfBoth;
  static constexpr int kStepBytes = kMmaTokens * Operands::kTokenBytes;
  static constexpr int kInputBytes = kStepBytes * Codes::kSteps;
  static constexpr int kStages = 4 - kInputBytes / (kMmaTokens * 128);
  static constexpr int kScaleBytes = kScaling == Scaling::kByGroupOfBoth ? kMmaTokens * 4 : 0;
  static constexpr int kZeroBytes = kByGroup && Operands::kZeros ? kMmaTokens * 4 : 0;
  static constexpr int kColumns = 8;  // of eight tokens, of a warp
  struct Sums {
    Sum tiles[2][4 * kColumns];  // of 16 rows
    typename Operands::ZeroSums of_zeros;
  };
  using Results = float[2][4 * kColumns];

  const GemmArguments& a;
  std::uint8_t* memory;
  OutputTile at;

  __host__ __device__ static int stage_bytes(int slot_bytes) {
    return kInputBytes + kScaleBytes + kZeroBytes + 2 * slot_bytes;
  }

  __device__ std::uint8_t* inputs_of(int stage) const {
    return memory + stage * stage_bytes(a.slot_bytes);
  }
  __device__ float* scales_of_tokens(int stage) const {
    return reinterpret_cast<float*>(inputs_of(stage) + kInputBytes);
  }
  __device__ std::int32_t* zeros_of_tokens(int stage) const {
    return reinterpret_cast<std::int32_t*>(inputs_of(stage) + kInputBytes + kScaleBytes);
  }
  __device__ std::uint8_t* units_of(int stage) const {
    return inputs_of(stage) + kInputBytes + kScaleBytes + kZeroBytes;
  }
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return thread() % 32; }
  __device__ static int row_warp() { return thread() / 32 % 4; }    // 32 rows
  __device__ static int token_warp() { return thread() / 32 / 4; }  // 64 tokens

  __device__ static int place(int token, int piece) {
    return piece_place<Operands::kTokenBytes>(token, piece);
  }

  __device__ void copy_inputs(int stage, int unit) const {
    constexpr int kPieces = Operands::kTokenBytes / 16;  // of a step
    constexpr int kAllPieces = kPieces * Codes::kSteps;
    const auto* source = static_cast<const std::uint8_t*>(a.inputs);
#pragma unroll
    for (int i = 0; i < kInputBytes / 16 / kMmaThreads; ++i) {
      const int index = i * kMmaThreads + thread();
      const int piece = index % kAllPieces;
      const int token = index / kAllPieces;
      const int from = at.tokens * kMmaTokens + token;
      const bool inside = from < a.tokens;
      copy_async<16>(
          inputs_of(stage) + piece / kPieces * kStepBytes + place(token, piece % kPieces),
          source + (inside ? from : 0) * a.input_row_bytes + unit * 16 * kAllPieces + piece * 16,
          inside);
    }
    if constexpr (kScaleBytes > 0) {
      copy_of_tokens(scales_of_tokens(stage), a.input_scales, unit);
    }
    if constexpr (kZeroBytes > 0) {
      if (a.input_zeros != nullptr) {
        copy_of_tokens(zeros_of_tokens(stage), a.input_zeros, unit);
      }
    }
  }

  // A value of each token, beside the unit's inputs.
  template <class Value>
  __device__ void copy_of_tokens(Value* to, const Value* from, int unit) const {
    if (thread() < kMmaTokens) {
      const int token = min(at.tokens * kMmaTokens + thread(), a.tokens - 1);
      copy_async<4>(to + thread(), from + token * a.token_stride + unit * a.group_stride, true);
    }
  }

  __device__ void copy_units(int stage, int unit) const {
    const bool in_body = unit < a.body_units;
    const int bytes = 4 * (in_body ? a.tile_bytes : a.tail_tile_bytes);
    for (int half = 0; half < 2; ++half) {
      const std::int64_t group = at.strip * 2 + half;
      if (group >= a.row_groups) {
        break;
      }
      const std::uint8_t* source =
          in_body ? a.units + (group * a.body_units + unit) * bytes : a.tail_units + group * bytes;
      for (int byte = thread() * 16; byte < bytes; byte += kMmaThreads * 16) {
        copy_async<16>(units_of(stage) + half * a.slot_bytes + byte, source + byte, true);
      }
    }
  }

  // Always a group of copies, so that they can be counted.
  __device__ void copy(int unit) const {
    if (unit < a.units_along_k) {
      copy_inputs(unit % kStages, unit);
      copy_units(unit % kStages, unit);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  __device__ std::uint32_t tile_of(int stage, int tile, int tile_bytes) const {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(units_of(stage))) +
           row_warp() / 2 * a.slot_bytes + (row_warp() % 2 * 2 + tile) * tile_bytes;
  }

  // The right fragments of 16 tokens and 32 bytes of k: [8 tokens][16 bytes].
  __device__ void load_right(std::uint32_t (&right)[4], const std::uint8_t* inputs, int pair,
                             int product) const {
    const RightRow row = right_row(lane(), pair, product);
    const auto address = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(inputs + place(token_warp() * 64 + row.token, row.piece)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(right[0]), "=r"(right[1]), "=r"(right[2]), "=r"(right[3])
                 : "r"(address));
  }

  __device__ void multiply_step(Sums& sums, const typename Operands::Left (&left)[2],
                                const std::uint8_t* inputs) const {
#pragma unroll
    for (int product = 0; product < Operands::kProducts; ++product) {
#pragma unroll
      for (int pair = 0; pair < kColumns / 2; ++pair) {
        std::uint32_t right[4];
        load_right(right, inputs, pair, product);
#pragma unroll
        for (int column = 0; column < 2; ++column) {
#pragma unroll
          for (int tile = 0; tile < 2; ++tile) {
            auto& part = reinterpret_cast<Sum(&)[4]>(sums.tiles[tile][4 * (2 * pair + column)]);
            Operands::multiply(part, left[tile][product], right[2 * column], right[2 * column + 1]);
          }
          if constexpr (Operands::kZeros) {
            sums.of_zeros.add_tokens(a, 2 * pair + column, right[2 * column],
                                     right[2 * column + 1]);
          }
        }
      }
      if constexpr (Operands::kZeros) {
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          sums.of_zeros.add_rows(a, tile, left[tile][product]);
        }
      }
    }
  }

  template <class UnitCodes>
  __device__ void multiply_unit(Sums& sums, const typename UnitCodes::Rows (&rows)[2], int stage,
                                int tile_bytes) const {
#pragma unroll
    for (int step = 0; step < UnitCodes::kSteps; ++step) {
      typename Operands::Left left[2];
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        typename UnitCodes::Words words;
        UnitCodes::load(words, tile_of(stage, tile, tile_bytes), step, lane(), a);
        UnitCodes::expand(left[tile], words, rows[tile], a);
      }
      multiply_step(sums, left, inputs_of(stage) + step * kStepBytes);
    }
  }

  template <class UnitCodes>
  __device__ float2 scaled(__half2 scales) const {
    const float2 both = __half22float2(scales);
    const float factor = UnitCodes::scale_factor(a);
    return {both.x * factor, both.y * factor};
  }

  template <class UnitCodes>
  __device__ void add_group(Results& results, const typename UnitCodes::Rows (&rows)[2], int stage,
                            int tile_bytes) const {
    Sums sums = {};
    multiply_unit<UnitCodes>(sums, rows, stage, tile_bytes);
    if constexpr (Operands::kZeros) {
      sums.of_zeros.correct(
          sums.tiles, a, lane(), static_cast<int>(kUnitInputs),
          [&](int tile) {
            return zeros_of(tile_of(stage, tile, tile_bytes), UnitCodes::kCodeBytes, 1, 0,
                            lane() / 4);
          },
          [&](int token) { return zeros_of_tokens(stage)[token_warp() * 64 + token]; });
    }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      const __half2 stored =
          scales_of(tile_of(stage, tile, tile_bytes), UnitCodes::kCodeBytes, 0, lane() / 4);
      const float2 scales = in_units(scaled<UnitCodes>(stored), rows[tile]);
#pragma unroll
      for (int i = 0; i < 4 * kColumns; ++i) {
        const auto sum = static_cast<float>(sums.tiles[tile][i]);
        const float scale = i % 4 < 2 ? scales.x : scales.y;
        float& result = results[tile][i];
        if constexpr (kScaling == Scaling::kByGroupOfBoth) {
          const int token = token_warp() * 64 + i / 4 * 8 + lane() % 4 * 2 + i % 2;
          result = __fmaf_rn(__fmul_rn(sum, scale), scales_of_tokens(stage)[token], result);
        } else {
          result = __fmaf_rn(sum, scale, result);
        }
      }
    }
  }

  // Calls `multiply(unit, stage)` for each unit along k when it has come.
  template <class Multiply>
  __device__ void for_each_unit(Multiply&& multiply) const {
    for (int unit = 0; unit < kStages - 1; ++unit) {
      copy(unit);
    }
    for (int unit = 0; unit < a.units_along_k; ++unit) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
      __syncthreads();  // the unit has come for all, and all are done with the one before
      copy(unit + kStages - 1);
      multiply(unit, unit % kStages);
    }
  }

  // No __ldg: the kernel before may still have been writing these when this one began.
  __device__ float token_scale(int token) const {
    return a.input_scales[token * a.token_stride];
  }

  __device__ int row_of(int tile) const {
    return at.strip * kMmaRows + row_warp() * 32 + tile * static_cast<int>(kTileRows);
  }

  __device__ TileStore<64, GemmArguments> store_of(int tile) const {
    return {a, row_of(tile), at.tokens * kMmaTokens + token_warp() * 64};
  }

  // A tile in its first unit, in global memory; null: there are no such rows.
  __device__ const std::uint8_t* first_of(int tile) const {
    const int row = row_of(tile);
    const std::int64_t group = row / static_cast<int>(kUnitRows);
    return group >= a.row_groups
               ? nullptr
               : a.units + group * a.body_units * 4 * a.tile_bytes +
                     row % static_cast<int>(kUnitRows) / static_cast<int>(kTileRows) * a.tile_bytes;
  }

  // Scales of rows g and g + 8 of a tile, as they are in its first unit.
  __device__ float2 row_scales(int tile) const {
    const std::uint8_t* from = first_of(tile);
    return from == nullptr ? float2{0.0f, 0.0f}
                           : scaled<Codes>(global_scales_of(from, Codes::kCodeBytes, lane() / 4));
  }

  // The same of zeros, and sums of all inputs.
  __device__ void correct_by_row(Sums& sums) const {
    sums.of_zeros.correct(
        sums.tiles, a, lane(), a.units_along_k * static_cast<int>(kUnitInputs),
        [&](int tile) {
          const std::uint8_t* from = first_of(tile);
          return from == nullptr ? 0 : global_zeros_of(from, Codes::kCodeBytes, lane() / 4);
        },
        [&](int token) {
          const int inside = min(at.tokens * kMmaTokens + token_warp() * 64 + token, a.tokens - 1);
          return a.input_zeros[inside * a.token_stride];
        });
  }

  __device__ void load_rows(typename Codes::Rows (&rows)[2]) const {
    for (int tile = 0; tile < 2; ++tile) {
      Codes::load_rows(rows[tile], a, row_of(tile), lane());
    }
  }

  __device__ void run() const {
    Sums sums = {};
    typename Codes::Rows rows[2];
    load_rows(rows);
    for_each_unit([&](int, int stage) { multiply_unit<Codes>(sums, rows, stage, a.tile_bytes); });
    if constexpr (Operands::kZeros) {
      correct_by_row(sums);
    }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      if constexpr (kScaling == Scaling::kNone) {
        store_of(tile).store([](int) { return 1.0f; },
                             [&](int i, int, float) { return sums.tiles[tile][i]; });
      } else {
        const float2 scales = row_scales(tile);
        store_of(tile).store([&](int token) { return token_scale(token); },
                             [&](int i, int r, float scale) {
                               return __fmul_rn(__fmul_rn(static_cast<float>(sums.tiles[tile][i]),
                                                          r == 0 ? scales.x : scales.y),
                                                scale);
                             });
      }
    }
  }

  __device__ void run_by_group() const {
    Results results = {};
    typename Codes::Rows rows[2];
    load_rows(rows);
    for_each_unit([&]([[maybe_unused]] int unit, int stage) {
      if constexpr (kScaling == Scaling::kByGroupOfBoth && Operands::kTails) {
        if (unit >= a.body_units) {
          return add_group<Int8Codes>(results, {}, stage, a.tail_tile_bytes);
        }
      }
      add_group<Codes>(results, rows, stage, a.tile_bytes);
    });
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      if constexpr (kScaling == Scaling::kByGroupOfBoth) {
        store_of(tile).store([](int) { return 1.0f; },
                             [&](int i, int, float) { return results[tile][i]; });
      } else {
        store_of(tile).store(
            [&](int token) { return token_scale(token); },
            [&](int i, int, float scale) { return __fmul_rn(results[tile][i], scale); });
      }
    }
  }
};

template <class Codes, Scaling kScaling>
__global__ void __launch_bounds__(kMmaThreads, 1)
    gemm_mma(const __grid_constant__ GemmArguments arguments) {
  extern __shared__ __align__(128) std::uint8_t memory[];
  using Kernel = MmaKernel<Codes, kScaling>;
  const Kernel kernel{
      arguments, memory,
      tile_at(static_cast<int>(blockIdx.x), arguments.strips, arguments.token_tiles)};
  launch_dependents();
  wait_for_predecessor();
  if constexpr (Kernel::kByGroup) {
    kernel.run_by_group();
  } else {
    kernel.run();
  }
}

/// Fills in how the work is cut, and launches.
template <class Codes, Scaling kScaling>
void launch_mma(GemmArguments arguments, cudaStream_t stream) {
  using Kernel = MmaKernel<Codes, kScaling>;
  arguments.strips = (arguments.rows + kMmaRows - 1) / kMmaRows;
  arguments.token_tiles = (arguments.tokens + kMmaTokens - 1) / kMmaTokens;
  const int bytes = Kernel::kStages * Kernel::stage_bytes(arguments.slot_bytes);
  const auto kernel = gemm_mma<Codes, kScaling>;
  allow_shared_bytes(kernel, bytes);
  launch_dependent(kernel, dim3(static_cast<unsigned>(arguments.strips * arguments.token_tiles)),
                   dim3(kMmaThreads), static_cast<std::size_t>(bytes), stream, arguments);
}

}  // namespace nibble::ops::cuda
