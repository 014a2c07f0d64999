#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/device_code/warp_ring.cuh"
#include "ops/cuda/gemm/half_results.cuh"
#include "ops/cuda/small_batch/decoders.cuh"
#include "ops/cuda/small_batch/inputs.cuh"
#include "ops/cuda/small_batch/layer_arguments.h"
#include "ops/cuda/small_batch/share.cuh"

/// What the warps of one thread block do for their rows of a layer.
namespace nibble::ops::cuda {

__device__ __forceinline__ void prefetch_to_l2(const void* source) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(source)));
}

__device__ __forceinline__ float2 scale_pair(const std::byte* source, bool bf16) {
  const std::uint32_t bits = *reinterpret_cast<const std::uint32_t*>(source);
  if (bf16) {
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
  }
  return make_float2(__half2float(__ushort_as_half(static_cast<unsigned short>(bits))),
                     __half2float(__ushort_as_half(static_cast<unsigned short>(bits >> 16))));
}

/// Where the sums of a portion lie, one after the other: those of the warps that met it, of which
/// the first and the last note themselves.
struct SumSlots {
  int first;
  int last;
};

/// Each warp multiplies its part of the line of pieces (share.cuh) and leaves a sum for every
/// portion that it met; then the block adds these sums in the order of the warps.
///
/// kGroups: groups of a unit; eight lie two and two in the 32 inputs of one instruction, and each
/// takes one of its own in which the other's inputs are zero. kDigits: columns of a token.
/// kColumns: columns in eights.
template <typename Decoder, GroupOffset kOffset, int kGroups, int kDigits, int kColumns>
class FewTokenLayer {
 public:
  using Inputs = UnitInputs<kDigits, kColumns, kGroups == 8 && kDigits == 1>;
  static constexpr int kPortion = piece_tiles(Decoder::kCodeBytes);
  static constexpr int kRows = kPortion * 16;
  static constexpr int kSumStride = kRows + 8;  // keeps lanes apart in the banks
  static constexpr int kZeroOffset = Decoder::kCodeBytes + 16 * kGroups * 2;  // in a tile
  static constexpr int kTileBytes =
      kZeroOffset + 16 * kGroups * static_cast<int>(offset_bytes(kOffset));
  static constexpr bool kFloats = kDigits == 2 && kColumns == 1;  // rounds rows by itself
  using Share = TileShare<kPortion>;
  using Place = Cursor<kPortion>;

  /// Bytes of sums that a block needs for m tokens and so many portions.
  __host__ __device__ static constexpr int sum_bytes(int warps, int portions, int m) {
    return (warps + portions) * m * kSumStride * static_cast<int>(sizeof(float));
  }

  /// `sums`: sum_bytes(). `slots`: one for each portion. `thread` is one of warps * 32.
  __device__ FewTokenLayer(const LayerArguments& a, const Share& share, float* sums,
                           SumSlots* slots, int thread, int warps)
      : a_(a), share_(share), sums_(sums), slots_(slots), thread_(thread), warps_(warps) {}

  /// Brings what belongs to the block's rows beside their units into the L2 cache.
  __device__ void prefetch_rows() const {
    constexpr int kEach = 8;  // 128 bytes of tables, 32 of factors
    const int end = min(share_.end * 16, a_.n);
    for (int row = share_.begin * 16 + thread_ * kEach; row < end; row += warps_ * 32 * kEach) {
      if constexpr (Decoder::kHasTable) {
        prefetch_to_l2(a_.tables + std::size_t{16} * static_cast<unsigned>(row));
      }
      if (a_.factors != nullptr) {
        prefetch_to_l2(a_.factors + row);
      }
      if (a_.bias != nullptr) {
        prefetch_to_l2(a_.bias + row);
      }
    }
  }

  /// Multiplies this warp's pieces. `wait()` waits for the inputs and returns them, `begun()` comes
  /// when the first are on their way, `next()` waits for the bytes of a piece, and `release()`
  /// gives their memory back.
  template <typename Wait, typename Begun, typename Next, typename Release>
  __device__ void multiply(int m, const Wait& wait, const Begun& begun, const Next& next,
                           const Release& release) const {
    const int lane = thread_ % 32;
    const int warp = thread_ / 32;
    Place at = Place::first(share_, warp, a_);
    typename Decoder::Rows rows[kPortion];
    load_tables(at, lane, rows);
    const InputCodes x = wait();
    Inputs ahead;
    if (at.left > 0) {
      ahead.load(x, at.block, lane);
    }
    begun();
    while (at.left > 0) {
      const int tile = at.tile;
      const int portion = at.portion;
      if (at.block == 0 && lane == 0) {
        slots_[portion].first = warp + portion;
      }
      const int tiles = share_.tiles_of(tile);
      float totals[kPortion][kColumns][2 * kTokensOfLane] = {};
      bool last;
      do {
        const Inputs inputs = ahead;
        const bool ends = at.advance(share_);
        if (ends && lane == 0) {
          slots_[portion].last = warp + portion;
        }
        last = ends || at.left == 0;
        if (at.left > 0) {
          ahead.load(x, at.block, lane);
        }
        const InputSums x_sums(inputs, lane);
        const std::byte* stage = next();
        if constexpr (kColumns > 2) {  // registers do not suffice for two tiles at once
          static_assert(kPortion == 4);
          multiply_tiles<0, 1>(stage, kPortion, lane, inputs, x_sums, rows, totals);
          if (tiles > 1) {
            multiply_tiles<1, 1>(stage, kPortion, lane, inputs, x_sums, rows, totals);
          }
          if (tiles > 2) {
            multiply_tiles<2, 1>(stage, kPortion, lane, inputs, x_sums, rows, totals);
          }
          if (tiles > 3) {
            multiply_tiles<3, 1>(stage, kPortion, lane, inputs, x_sums, rows, totals);
          }
        } else {
          multiply_tiles<0, 2>(stage, tiles, lane, inputs, x_sums, rows, totals);
          if constexpr (kPortion > 2) {
            if (tiles > 2) {
              multiply_tiles<2, 2>(stage, tiles, lane, inputs, x_sums, rows, totals);
            }
          }
        }
        release();
      } while (!last);
      load_tables(at, lane, rows);
      put_totals(totals, sums_ + static_cast<std::size_t>(warp + portion) * m * kSumStride, lane,
                 m);
    }
  }

  /// After the predecessor has ended: begins to copy what results are added to into `olds`, of
  /// old_bytes().
  __device__ void copy_olds(int m, const float* y, int ldy, float* olds) const {
    each_row([&](int i, int n, int, int) {
      for (int token = 0; token < m; ++token) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                         shared_address(olds + token * rows() + i)),
                     "l"(y + static_cast<std::size_t>(token) * ldy + n)
                     : "memory");
      }
    });
  }
  __host__ __device__ static constexpr int old_bytes(int portions, int m) {
    return portions * kRows * m * static_cast<int>(sizeof(float));
  }

  /// After all warps have multiplied: adds their sums, and olds if not null, into y, or into `half`
  /// where that is null.
  __device__ void add_sums(int m, float* y, int ldy, const float* olds,
                           const HalfOutput& half) const {
    if (olds != nullptr) {
      asm volatile("cp.async.wait_all;" ::: "memory");  // each thread reads what it copied
    }
    if (y == nullptr) {
      return add_rows<kSummed>(m, [&](int, int n, int first, float(&sums)[kSummed]) {
#pragma unroll 1  // put_half() is long
        for (int token = first; token < min(first + kSummed, m); ++token) {
          put_half(half, token, n, sums[0]);
#pragma unroll
          for (int t = 1; t < kSummed; ++t) {
            sums[t - 1] = sums[t];
          }
        }
      });
    }
    const auto put = [&](int i, int n, int first, const auto& sums) {
      float* const to = y + static_cast<std::size_t>(first) * ldy + n;
#pragma unroll
      for (int t = 0; t < static_cast<int>(sizeof(sums) / sizeof(float)); ++t) {
        if (first + t < m) {
          to[t * ldy] = olds != nullptr ? olds[(first + t) * rows() + i] + sums[t] : sums[t];
        }
      }
    };
    m == 1 ? add_rows<1>(m, put) : add_rows<kSummed>(m, put);
  }

 private:
  /// Of all portions.
  __device__ int rows() const {
    return share_.portions() * kRows;
  }

  /// Calls body(number, row of the layer, portion, row of the portion) for the thread's rows.
  template <typename Body>
  __device__ void each_row(const Body& body) const {
    for (int i = thread_; i < rows(); i += warps_ * 32) {
      const int row = i % kRows;
      const int portion = i / kRows;
      const int tile = share_.first_of(portion);
      const int n = tile * 16 + row;
      if (row < share_.tiles_of(tile) * 16 && n < a_.n) {
        body(i, n, portion, row);
      }
    }
  }

  static constexpr int kSummed = 4;  // tokens whose sums a thread adds side by side

  /// put(number, row of the layer, first token, sums of kCount tokens) for the thread's rows.
  /// Tokens behind the last have the last one's.
  template <int kCount, typename Put>
  __device__ void add_rows(int m, const Put& put) const {
    const int stride = m * kSumStride;
    each_row([&](int i, int n, int portion, int row) {
      const Ending ending(a_, n);
      const SumSlots slots = slots_[portion];
      const float* const end = sums_ + (slots.last + 1) * stride;
#pragma unroll 1
      for (int first = 0; first < m; first += kCount) {
        float sums[kCount] = {};
        int place[kCount];
#pragma unroll
        for (int t = 0; t < kCount; ++t) {
          place[t] = min(first + t, m - 1) * kSumStride + row;
        }
        // Each sum waits for its loads: one sum has those of several slots under way.
#pragma unroll kCount == 1 ? 4 : 1
        for (const float* from = sums_ + slots.first * stride; from < end; from += stride) {
#pragma unroll
          for (int t = 0; t < kCount; ++t) {
            sums[t] += from[place[t]];
          }
        }
#pragma unroll
        for (int t = 0; t < kCount; ++t) {
          sums[t] = ending.of(sums[t]);
        }
        put(i, n, first, sums);
      }
    });
  }

  static constexpr int kTokensOfLane = Inputs::kTokens;  // in eight columns
  static constexpr bool kZeros = kOffset == GroupOffset::kZero;
  static constexpr bool kShifts = kOffset == GroupOffset::kShift;
  static constexpr bool kSums = kZeros || kShifts || Decoder::kNeedsSums;
  static constexpr bool kHalves = kGroups == 8;             // groups of 16
  static constexpr int kSteps = kHalves ? 1 : 4 / kGroups;  // of 32 inputs in a group

  __device__ static constexpr int first_step(int group) {
    return kHalves ? group / 2 : group * kSteps;
  }
  /// Inputs 8 t .. 8 t + 7 of 32 are the lane's: those of a group of 16, or all.
  __device__ static std::uint32_t word_of_group(const Inputs& inputs, int n, int h, int e,
                                                int group, int lane) {
    const std::uint32_t word = inputs.word(n, h, e);
    return !kHalves || lane % 4 / 2 == group % 2 ? word : 0u;
  }

  /// What becomes of a row's sums; read before they are added, since it takes as long.
  struct Ending {
    float factor;
    float bias;
    __device__ Ending(const LayerArguments& a, int n)
        : factor(a.factors == nullptr ? 1.0f : a.factors[n]),
          bias(a.bias == nullptr ? 0.0f : a.bias[n]) {}
    __device__ float of(float sum) const { return sum * factor + bias; }
  };

  /// Of a portion, unless no pieces are left.
  __device__ void load_tables(const Place& at, int lane,
                              typename Decoder::Rows (&rows)[kPortion]) const {
    if constexpr (Decoder::kHasTable) {
      const auto* tables = reinterpret_cast<const uint4*>(a_.tables) + at.tile * 16 + lane / 4;
      const int tiles = at.left > 0 ? share_.tiles_of(at.tile) : 0;
#pragma unroll
      for (int tile = 0; tile < kPortion; ++tile) {
        if (tile < tiles) {
          rows[tile].lower = tables[tile * 16];
          rows[tile].upper = tables[tile * 16 + 8];
        }
      }
    }
  }

  /// Sums of a token's codes over each group: products with ones.
  struct InputSums {
    int x[kGroups][kColumns][kTokensOfLane];

    __device__ InputSums(const Inputs& inputs, [[maybe_unused]] int lane) {
      if constexpr (kSums) {
        constexpr std::uint32_t kOnes = 0x01010101u;
        const std::uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
            std::int32_t c[4] = {};
#pragma unroll
            for (int h = first_step(group); h < first_step(group) + kSteps; ++h) {
              mma_s8(c, ones, word_of_group(inputs, n, h, 0, group, lane),
                     word_of_group(inputs, n, h, 1, group, lane));
            }
#pragma unroll
            for (int i = 0; i < kTokensOfLane; ++i) {
              x[group][n][i] = of_token(c[0], c[1], i);
            }
          }
        }
      }
    }
  };

  /// The lane's i-th token of two columns: a digit to the base 255 each, or a token each.
  __device__ static int of_token(int first, int second, int i) {
    return kDigits == 2 ? 255 * first + second : i == 0 ? first : second;
  }

  /// Adds the products of kCount tiles of a piece to the totals of their rows: totals[tile][n][rows
  /// g, g + 8 of each token]. The last of a pair may be absent: what becomes of the one that is
  /// read in its place is never used.
  template <int kFirst, int kCount>
  __device__ void multiply_tiles(const std::byte* stage, int tiles, int lane, const Inputs& inputs,
                                 const InputSums& sums,
                                 const typename Decoder::Rows (&rows)[kPortion],
                                 float (&totals)[kPortion][kColumns][2 * kTokensOfLane]) const {
    const auto tile_at = [&](int i) {
      const int tile = kFirst + i;
      return stage + (tile % 2 == 0 ? tile : min(tile, tiles - 1)) * kTileBytes;
    };
    typename Decoder::Words words[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      words[i] = Decoder::Words::load(tile_at(i), lane);
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      std::int32_t c[kCount][kColumns][4] = {};
#pragma unroll
      for (int h = first_step(group); h < first_step(group) + kSteps; ++h) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          std::uint32_t operands[Decoder::kOperands][4];
          Decoder::decode(words[i], h, rows[kFirst + i], operands);
#pragma unroll
          for (const auto& operand : operands) {
#pragma unroll
            for (int n = 0; n < kColumns; ++n) {
              mma_s8(c[i][n], operand, word_of_group(inputs, n, h, 0, group, lane),
                     word_of_group(inputs, n, h, 1, group, lane));
            }
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        scale_products(tile_at(i), group, lane, c[i], inputs, sums, totals[kFirst + i]);
      }
    }
  }

  /// Adds one group's integer sums of a tile to its totals.
  __device__ void scale_products(const std::byte* tile, int group, int lane,
                                 const std::int32_t (&c)[kColumns][4], const Inputs& inputs,
                                 const InputSums& sums,
                                 float (&totals)[kColumns][2 * kTokensOfLane]) const {
    int zero_of_lower = Decoder::kZero;
    int zero_of_upper = Decoder::kZero;
    if constexpr (kZeros) {
      const unsigned pair =
          *reinterpret_cast<const std::uint16_t*>(tile + kZeroOffset + group * 16 + lane / 4 * 2);
      zero_of_lower = static_cast<int>(pair & 0xffu);
      zero_of_upper = static_cast<int>(pair >> 8);
    }
    const float2 scale =
        scale_pair(tile + Decoder::kCodeBytes + group * 32 + lane / 4 * 4, a_.bf16_scales != 0);
    float2 shift = {};
    if constexpr (kShifts) {
      shift = scale_pair(tile + kZeroOffset + group * 32 + lane / 4 * 4, false);
    }
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int t = 0; t < kTokensOfLane; ++t) {
        int lower = of_token(c[n][0], c[n][1], t);
        int upper = of_token(c[n][2], c[n][3], t);
        if constexpr (kSums) {
          Decoder::finish(lower, upper, zero_of_lower, zero_of_upper, sums.x[group][n][t]);
        }
        float(&total)[2 * kTokensOfLane] = totals[n];
        const float x_scale = inputs.scale(n, t, group, lane);
        total[2 * t] = fmaf(static_cast<float>(lower) * scale.x, x_scale, total[2 * t]);
        total[2 * t + 1] = fmaf(static_cast<float>(upper) * (scale.y * Decoder::kUpperUnit),
                                x_scale, total[2 * t + 1]);
        if constexpr (kShifts) {
          const float x_sum = static_cast<float>(sums.x[group][n][t]) * x_scale;
          total[2 * t] = fmaf(shift.x, x_sum, total[2 * t]);
          total[2 * t + 1] = fmaf(shift.y, x_sum, total[2 * t + 1]);
        }
      }
    }
  }

  /// To sums[token][row] of this warp and portion.
  __device__ static void put_totals(const float (&totals)[kPortion][kColumns][2 * kTokensOfLane],
                                    float* sums, int lane, int m) {
#pragma unroll
    for (int tile = 0; tile < kPortion; ++tile) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < kTokensOfLane; ++i) {
          const int token = Inputs::token_of(n, lane, i);
          if (token < m) {
            float* target = sums + token * kSumStride + tile * 16 + lane / 4;
            target[0] = totals[tile][n][2 * i];
            target[8] = totals[tile][n][2 * i + 1];
          }
        }
      }
    }
  }

  const LayerArguments& a_;
  const Share& share_;
  float* sums_;
  SumSlots* slots_;
  int thread_;
  int warps_;
};

}  // namespace nibble::ops::cuda
