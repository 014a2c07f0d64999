#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/bulk_copy.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/elementwise/activated.cuh"
#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/gemm/store_tile.cuh"

namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Writes what a warpgroup computed, 64 rows from first_row on and all tokens of a tile from
/// first_token on, through shared memory: the copy engine takes it from there while the warps go
/// on. Values are where TileStore (store_tile.cuh) has them, and become what it makes of them.
/// Boxes of `map` cut off what lies outside of the matrix.
template <class Shape>
struct StagedStore {
  const GemmArguments& a;
  const CUtensorMap& map;
  std::uint32_t pieces;        // address of two pieces (staged_shape.h) of this warpgroup
  std::uint32_t token_scales;  // and of kTokens floats
  int first_row;
  int first_token;

  static constexpr int kTokens = Shape::kTokens;
  static constexpr StagedShape kStaged = Shape::kStaged;
  static constexpr bool kFactors = Shape::kScaling == Scaling::kNone;  // integers have none

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32 % 4; }
  __device__ static bool leads() { return threadIdx.x % 128 == 0; }

  /// `value(i, r, scale)` finishes value i with the scale of its token. Whoever leads waits at the
  /// end until all has left the shared memory.
  template <class Value>
  __device__ __forceinline__ void store(Value&& value) const {
    const TileStore<kTokens, GemmArguments> rows{a, first_row + 16 * warp(), first_token};
    const float biases[2] = {rows.bias(0), rows.bias(1)};
    const float factors[2] = {rows.factor(0), rows.factor(1)};
    const auto finished = [&](int i, int r, float scale) {
      const float scaled = value(i, r, scale);
      return __fadd_rn(kFactors ? __fmul_rn(scaled, factors[r]) : scaled, biases[r]);
    };
    if (a.output.y == nullptr) {
      store_gated(finished);
    } else {
      store_floats(finished);
    }
    if (leads()) {
      wait_until_read<0>();
    }
  }

 private:
  // Scales of tokens 8 j + 2 t and 8 j + 2 t + 1 of the tile.
  __device__ float2 scales(int j) const {
    float2 both = {1.0f, 1.0f};
    if constexpr (Shape::kScaledByToken) {
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(both.x), "=f"(both.y)
                   : "r"(token_scales + 32 * j + lane() % 4 * 8));
    }
    return both;
  }

  // Calls `write(piece, address)` for each piece of kPieceTokens tokens when its memory is free,
  // then `put(token, address)` of whoever leads.
  template <int kPieceTokens, class Write, class Put>
  __device__ __forceinline__ void each_piece(Write&& write, Put&& put) const {
#pragma unroll
    for (int piece = 0; piece < kTokens / kPieceTokens; ++piece) {
      const std::uint32_t address = pieces + piece % 2 * kStaged.piece_bytes;
      if (piece >= 2) {
        if (leads()) {
          wait_until_read<1>();
        }
        meet_in_warpgroup();
      }
      write(piece, address);
      fence_before_copies();
      meet_in_warpgroup();
      if (leads()) {
        put(first_token + piece * kPieceTokens, address);
        commit_boxes();
      }
    }
  }

  // Two boxes of 32 rows: tokens of 128 bytes, whose pieces of 16 have changed places.
  template <class Finished>
  __device__ __forceinline__ void store_floats(Finished& finished) const {
    constexpr int kPieceTokens = kStaged.float_tokens;
    constexpr int kBoxBytes = kPieceTokens * 128;
    std::uint32_t places[2][2];  // of rows r, tokens c
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int token = lane() % 4 * 2 + c;
        const int row = 16 * (warp() % 2) + 8 * r + lane() / 4;
        places[r][c] = warp() / 2 * kBoxBytes + token * 128 + (row / 4 ^ token) * 16 + row % 4 * 4;
      }
    }
    each_piece<kPieceTokens>(
        [&](int piece, std::uint32_t address) {
#pragma unroll
          for (int k = 0; k < kPieceTokens / 8; ++k) {
            const int j = piece * kPieceTokens / 8 + k;
            const float2 both = scales(j);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              asm volatile(
                  "st.shared.f32 [%0], %1;" ::"r"(address + places[i / 2][i % 2] + k * 1024),
                  "f"(finished(4 * j + i, i / 2, i % 2 == 0 ? both.x : both.y))
                  : "memory");
            }
          }
        },
        [&](int token, std::uint32_t address) {
#pragma unroll
          for (int box = 0; box < 2; ++box) {
            const int row = first_row + 32 * box;
            a.output.adds ? add_box(map, row, token, address + box * kBoxBytes)
                          : put_box(map, row, token, address + box * kBoxBytes);
          }
        });
  }

  // One box of 32 columns: tokens of 64 bytes. A lane has gate row g and up row g of its tokens;
  // eight columns of eight tokens at a time are transposed, so that lane 4 g + t has columns 2 t
  // and 2 t + 1 of token g.
  template <class Finished>
  __device__ __forceinline__ void store_gated(Finished& finished) const {
    constexpr int kPieceTokens = kStaged.gated_tokens;
    constexpr int kPairs = kPieceTokens / 4;
    const int column = 8 * warp() + lane() % 4 * 2;
    const int at = 2 * (a.output.half.tiles ? half_tile_position(column) : column);
    const int token = lane() / 4;
    const std::uint32_t place = token * 64 + ((at / 16 ^ token / 2) * 16) + at % 16;
    each_piece<kPieceTokens>(
        [&](int piece, std::uint32_t address) {
          float gates[kPairs];
          float ups[kPairs];
#pragma unroll
          for (int k = 0; k < kPairs / 2; ++k) {
            const int j = piece * kPieceTokens / 8 + k;
            const float2 both = scales(j);
            gates[2 * k] = finished(4 * j, 0, both.x);
            gates[2 * k + 1] = finished(4 * j + 1, 0, both.y);
            ups[2 * k] = finished(4 * j + 2, 1, both.x);
            ups[2 * k + 1] = finished(4 * j + 3, 1, both.y);
          }
          activate_all(*a.output.half.activation, gates);
#pragma unroll
          for (int k = 0; k < kPairs / 2; ++k) {
            const std::uint32_t pair = transposed(
                saturated_half2(gates[2 * k] * ups[2 * k], gates[2 * k + 1] * ups[2 * k + 1]));
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(address + place + k * 512), "r"(pair)
                         : "memory");
          }
        },
        [&](int first, std::uint32_t address) { put_box(map, first_row / 2, first, address); });
  }
};

#endif

}  // namespace nibble::ops::cuda
