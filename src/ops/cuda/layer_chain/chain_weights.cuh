#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/cuda/layer_chain/chain_inputs.cuh"
#include "ops/cuda/small_batch/decoders.cuh"
#include "ops/cuda/small_batch/layer.cuh"

/// The kinds of weights that chains take, and what becomes of their products.
namespace nibble::ops::cuda {

/// kGroups: of a unit, 1 or 4.
template <CodeKind kCodes, int kGroupsOf>
struct ChainWeights {
  using Decoder = std::conditional_t<is_book(kCodes), BookDecoder, Int4Decoder>;
  static constexpr int kGroups = kGroupsOf;
  static constexpr int kTileBytes =
      static_cast<int>(UnitFormat{kCodes, ScaleKind::kF16, kGroups}.tile_bytes());
  static constexpr bool kHasTable = Decoder::kHasTable;
  /// What kernels note sums of inputs times; 0: they need none.
  static constexpr int kOfSum = kHasTable ? 0 : has_zero_points(kCodes) ? 1 : -Decoder::kZero;

  static constexpr UnitFormat format() { return {kCodes, ScaleKind::kF16, kGroups}; }

#if __CUDA_ARCH__ >= 900
  /// Adds the products of a tile with both digits of the lane's group to its totals: of rows g and
  /// g + 8, the latter 1 / Decoder::kUpperUnit times too large.
  __device__ static void add(const std::byte* tile, const std::int32_t (&c)[4], int base,
                             const GroupInputs<kGroups>& x, float (&totals)[2]) {
    constexpr int kOffsetsAt = static_cast<int>(format().zero_offset());
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int g = lane / 4;
    const int group = kGroups == 1 ? 0 : lane % 4;
    const float2 scale = scale_pair(tile + Decoder::kCodeBytes + group * 32 + g * 4, false);
    int lower = base * c[0] + c[1];
    int upper = base * c[2] + c[3];
    if constexpr (has_zero_points(kCodes)) {
      const unsigned zeros =
          *reinterpret_cast<const std::uint16_t*>(tile + kOffsetsAt + group * 16 + g * 2);
      Decoder::finish(lower, upper, static_cast<int>(zeros & 0xffu), static_cast<int>(zeros >> 8),
                      x.sum);
    } else if constexpr (!kHasTable) {  // the same with a zero of 8
      upper -= lower;
      lower += x.sum;
    }
    totals[0] = fmaf(static_cast<float>(lower) * scale.x, x.scale, totals[0]);
    totals[1] = fmaf(static_cast<float>(upper) * scale.y, x.scale, totals[1]);
    if constexpr (has_shifts(kCodes)) {
      const float2 shift = scale_pair(tile + kOffsetsAt + group * 32 + g * 4, false);
      const float sum = static_cast<float>(x.sum) * (x.scale * (1.0f / kOfSum));
      totals[0] = fmaf(shift.x, sum, totals[0]);
      totals[1] = fmaf(shift.y, sum * (1.0f / Decoder::kUpperUnit), totals[1]);
    }
  }
#endif
};

using ChainedInt4 = ChainWeights<CodeKind::kInt4, 1>;
using ChainedInt4WithZeros = ChainWeights<CodeKind::kInt4WithZeros, 1>;
using ChainedBook = ChainWeights<CodeKind::kBook, 1>;
// A scale for each 32 or 64 inputs.
using ChainedInt4By32 = ChainWeights<CodeKind::kInt4, 4>;
using ChainedInt4WithZerosBy32 = ChainWeights<CodeKind::kInt4WithZeros, 4>;
using ChainedInt4WithShiftsBy32 = ChainWeights<CodeKind::kInt4WithShifts, 4>;
using ChainedBookBy32 = ChainWeights<CodeKind::kBook, 4>;

}  // namespace nibble::ops::cuda
