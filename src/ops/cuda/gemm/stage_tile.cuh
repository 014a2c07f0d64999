#pragma once

#include <cstdint>
#include <optional>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/bulk_copy.cuh"
#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/gemm/put_transposed.cuh"
#include "ops/cuda/gemm/store_tile.cuh"

namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Writes what a warpgroup computed, 64 rows from first_row on and all tokens of a tile from
/// first_token on, through shared memory: the copy engine takes it from there while the warps go
/// on, or (blocks of a sum) they send it themselves. Values are where TileStore (store_tile.cuh)
/// has them, and become what it makes of them. Boxes of `map` cut off what lies outside of the
/// matrix.
template <class Shape, int kTokens = Shape::kTokens>
struct StagedStore {
  const GemmArguments& a;
  const CUtensorMap& map;
  std::uint32_t pieces;        // address of two pieces (staged_shape.h) of this warpgroup
  std::uint32_t token_scales;  // and of kTokens floats
  int first_row;
  int first_token;

  static constexpr StagedShape kStaged = Shape::kStaged;
  static constexpr bool kFactors = Shape::kScaling == Scaling::kNone;  // integers have none

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32 % 4; }
  __device__ static bool leads() { return threadIdx.x % 128 == 0; }

  /// `value(i, r, scale)` finishes value i with the scale of its token. What is on its way then
  /// has left the shared memory when whoever leads has seen finish().
  template <class Value>
  __device__ __forceinline__ void store(Value&& value) const {
    const TileStore<kTokens, GemmArguments> rows{a, first_row + 16 * warp(), first_token};
    const float biases[2] = {rows.bias(0), rows.bias(1)};
    const float factors[2] = {rows.factor(0), rows.factor(1)};
    const auto finished = [&](int i, int r, float scale) {
      const float scaled = value(i, r, scale);
      return __fadd_rn(kFactors ? __fmul_rn(scaled, factors[r]) : scaled, biases[r]);
    };
    if (a.output.y != nullptr) {
      store_floats(finished);
    } else if (a.output.half.values != nullptr) {
      store_halves(finished);
    } else if (Shape::kSendsBlocks && a.output.in_blocks()) {
      if constexpr (Shape::kSendsBlocks) {
        store_blocks(finished);
      }
    } else {
      store_codes(finished);
    }
  }
  __device__ static void finish() {
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
  // then `put(token, address)` of whoever leads. Small pieces are half as large, and have four
  // places in the place of two.
  template <int kPieceTokens, class Write, class Put>
  __device__ __forceinline__ void each_piece(bool small, Write&& write, Put&& put) const {
    const int bytes = small ? kStaged.piece_bytes / 2 : kStaged.piece_bytes;
#pragma unroll
    for (int piece = 0; piece < kTokens / kPieceTokens; ++piece) {
      const std::uint32_t address = pieces + (small ? piece : piece % 2) * bytes;
      if (piece >= 2 && !small) {
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

  // Pieces of float32 are two boxes of 32 rows: tokens of 128 bytes, whose pieces of 16 have
  // changed places.
  static constexpr int kFloatTokens = kStaged.float_tokens;
  static constexpr int kBoxBytes = kFloatTokens * 128;

  // Where in a piece a lane has rows r of tokens c, c + 8, ...
  struct FloatPlaces {
    std::uint32_t at[2][2];
    __device__ FloatPlaces() {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int token = lane() % 4 * 2 + c;
          const int row = 16 * (warp() % 2) + 8 * r + lane() / 4;
          at[r][c] = warp() / 2 * kBoxBytes + token * 128 + (row / 4 ^ token) * 16 + row % 4 * 4;
        }
      }
    }
  };

  template <class Finished>
  __device__ __forceinline__ void write_floats(Finished& finished, const FloatPlaces& places,
                                               int piece, std::uint32_t address) const {
#pragma unroll
    for (int k = 0; k < kFloatTokens / 8; ++k) {
      const int j = piece * kFloatTokens / 8 + k;
      const float2 both = scales(j);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(address + places.at[i / 2][i % 2] + k * 1024),
                     "f"(finished(4 * j + i, i / 2, i % 2 == 0 ? both.x : both.y))
                     : "memory");
      }
    }
  }

  template <class Finished>
  __device__ __forceinline__ void store_floats(Finished& finished) const {
    const FloatPlaces places;
    each_piece<kFloatTokens>(
        false,
        [&](int piece, std::uint32_t address) { write_floats(finished, places, piece, address); },
        [&](int token, std::uint32_t address) {
#pragma unroll
          for (int box = 0; box < 2; ++box) {
            const int row = first_row + 32 * box;
            a.output.adds ? add_box(map, row, token, address + box * kBoxBytes)
                          : put_box(map, row, token, address + box * kBoxBytes);
          }
        });
  }

  // Every thread sends eight rows of a token at a time: eight threads those of one token, which lie
  // together. Nobody writes to a piece again before all have met behind the next one.
  template <class Finished>
  __device__ __forceinline__ void store_blocks(Finished& finished) const {
    const FloatPlaces places;
    const BlockPlaces to(a.output.blocks, a.rows);
#pragma unroll
    for (int piece = 0; piece < kTokens / kFloatTokens; ++piece) {
      const std::uint32_t address = pieces + piece % 2 * kStaged.piece_bytes;
      write_floats(finished, places, piece, address);
      meet_in_warpgroup();
      send_blocks(to, first_token + piece * kFloatTokens, address);
    }
    fence_before_copies();  // into the stage
  }

  __device__ __forceinline__ void send_blocks(const BlockPlaces& to, int first,
                                              std::uint32_t address) const {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const int row = thread % 8 * kWireBlock;
#pragma unroll
    for (int i = 0; i < kFloatTokens / 16; ++i) {
      const int token = 16 * i + thread / 8;
      std::uint32_t bits[kWireBlock];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int piece = row % 32 / 4 + half;
        const std::uint32_t from =
            address + row / 32 * kBoxBytes + token * 128 + (piece ^ token % 8) * 16;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(bits[4 * half]), "=r"(bits[4 * half + 1]), "=r"(bits[4 * half + 2]),
                       "=r"(bits[4 * half + 3])
                     : "r"(from)
                     : "memory");
      }
      if (first + token < a.tokens && first_row + row < a.rows) {
        to.put(first + token, first_row + row, bits);
      }
    }
  }

  // Where in a piece of float16 a lane has its two columns of tokens g, g + 8, ...: tokens have 128
  // bytes, of pairs 64, whose pieces of 16 have changed places.
  __device__ std::uint32_t half_place(int round) const {
    const HalfOutput& output = a.output.half;
    const int token = lane() / 4;
    const int at = 2 * half_position(output, half_column(output, 16 * warp(), round, lane()));
    const int place = at / 16 ^ (output.pairs ? token / 2 : token);
    return token * (output.pairs ? 64 : 128) + place * 16 + at % 16;
  }

  // One box of 64 columns, or of 32 pairs.
  template <class Finished>
  __device__ __forceinline__ void store_halves(Finished& finished) const {
    const HalfOutput& output = a.output.half;
    const auto put = [&](int first, std::uint32_t address) {
      put_box(map, output.pairs ? first_row / 2 : first_row, first, address);
    };
    if (output.pairs || output.tiles) {
      each_half_piece(
          [&](int piece, std::uint32_t address) { write_turned(finished, piece, address); }, put);
    } else {
      each_half_piece(
          [&](int piece, std::uint32_t address) { write_columns(finished, piece, address); }, put);
    }
  }

  static constexpr int kHalfTokens = kStaged.half_tokens;
  static_assert(kTokens / kHalfTokens <= 4, "there are four places for small pieces");
  template <class Write, class Put>
  __device__ __forceinline__ void each_half_piece(Write&& write, Put&& put) const {
    each_piece<kHalfTokens>(a.output.half.pairs, write, put);
  }

  // Columns in pairs or in tile order: eight by eight, as put_halves() turns them.
  template <class Finished>
  __device__ __forceinline__ void write_turned(Finished& finished, int piece,
                                               std::uint32_t address) const {
    constexpr int kHeld = kHalfTokens / 4;
    const HalfOutput& output = a.output.half;
    float lower[kHeld];
    float upper[kHeld];
#pragma unroll
    for (int k = 0; k < kHeld / 2; ++k) {
      const int j = piece * kHalfTokens / 8 + k;
      const float2 both = scales(j);
      lower[2 * k] = finished(4 * j, 0, both.x);
      lower[2 * k + 1] = finished(4 * j + 1, 0, both.y);
      upper[2 * k] = finished(4 * j + 2, 1, both.x);
      upper[2 * k + 1] = finished(4 * j + 3, 1, both.y);
    }
    put_halves(output, lower, upper, [&](int round, const auto& pairs) {
      const std::uint32_t to = address + half_place(round);
      const std::uint32_t step = output.pairs ? 512 : 1024;  // to the next eight tokens
#pragma unroll
      for (int k = 0; k < kHeld / 2; ++k) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + k * step), "r"(pairs[k]) : "memory");
      }
    });
  }

  // Values of a piece, as TileStore numbers them.
  using PieceValues = float[kHalfTokens / 2];
  template <class Finished>
  __device__ __forceinline__ void finish_piece(Finished& finished, int piece,
                                               const std::optional<MlpActivation>& activation,
                                               PieceValues& values) const {
#pragma unroll
    for (int k = 0; k < kHalfTokens / 8; ++k) {
      const int j = piece * kHalfTokens / 8 + k;
      const float2 both = scales(j);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[4 * k + i] = finished(4 * j + i, i / 2, i % 2 == 0 ? both.x : both.y);
      }
    }
    if (activation) {
      activate_all(*activation, values);
    }
  }

  // Columns as they are: each instruction writes 16 columns of 16 tokens.
  template <class Finished>
  __device__ __forceinline__ void write_columns(Finished& finished, int piece,
                                                std::uint32_t address) const {
    PieceValues values;
    finish_piece(finished, piece, a.output.half.activation, values);
    const int place = 2 * warp() + lane() / 8 % 2;  // of the 16 bytes, before they change places
    const std::uint32_t to =
        address + lane() / 16 * 1024 + lane() % 8 * 128 + (place ^ lane() % 8) * 16;
#pragma unroll
    for (int k = 0; k < kHalfTokens / 16; ++k) {
      const std::uint32_t pairs[4] = {cut_half2(values[8 * k], values[8 * k + 1]),
                                      cut_half2(values[8 * k + 2], values[8 * k + 3]),
                                      cut_half2(values[8 * k + 4], values[8 * k + 5]),
                                      cut_half2(values[8 * k + 6], values[8 * k + 7])};
      put_transposed(to + k * 2048, pairs);
    }
  }

  // Boxes of 64 codes, whose tokens have as many bytes.
  template <class Finished>
  __device__ __forceinline__ void store_codes(Finished& finished) const {
    const CodeOutput& output = a.output.codes;
    if (first_row == 0) {
      put_scales(output, first_token, kTokens, a.tokens, static_cast<int>(threadIdx.x) % 128, 128);
    }
    ResultCoder coder(output);
    const int row = first_row + 16 * warp() + lane() / 4;
    const int t = lane() % 4;
    const int place = warp() / 2 * 2 + t / 2;  // of the 16 bytes, before they change places
    const int to = lane() / 4 * 64 + (place ^ lane() / 8) * 16 + 4 * (t % 2 + warp() % 2 * 2);
    each_piece<kHalfTokens>(
        true,
        [&](int piece, std::uint32_t address) {
          PieceValues values;
          finish_piece(finished, piece, output.activation, values);
#pragma unroll
          for (int k = 0; k < kHalfTokens / 8; ++k) {
            const uint2 lower =
                coder.codes(cut_half2(values[4 * k], values[4 * k + 1]), row < a.rows);
            const uint2 upper =
                coder.codes(cut_half2(values[4 * k + 2], values[4 * k + 3]), row + 8 < a.rows);
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(address + to + k * 512),
                         "r"(turned_codes(lower, upper))
                         : "memory");
          }
        },
        [&](int first, std::uint32_t address) { put_box(map, first_row, first, address); });
    coder.note();
  }
};

#endif

}  // namespace nibble::ops::cuda
