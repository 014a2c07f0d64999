#pragma once

#include <cmath>
#include <cstdint>

#include "ops/cuda/attention/fragments.cuh"
#include "ops/cuda/attention/packed/packed_rows.cuh"
#include "ops/cuda/attention/prefill_unit.cuh"
#include "ops/cuda/device_code/reduce.cuh"

namespace nibble::ops::cuda::packed {

/// Attention of 16 query rows with one head (FlashAttention-2, arXiv 2307.08691): lane 4g + t has
/// rows g and g + 8, and columns 2t and 2t + 1 of every 8. Keys and values lie in shared memory;
/// from `count` on they are zeros up to a multiple of 16, and then anything.
template <class Product>
class Warp {
 public:
  static constexpr int D = Product::kDim;

  __device__ __forceinline__ void load_queries(std::byte* rows) { product_.load_queries(rows); }

  /// q k^T with the `count` keys of a step; the others score -infinity.
  __device__ __forceinline__ void score(std::uint32_t keys, int count, Scores& scores) const {
    if (count == kStepKeys) {
      product_.template multiply<true>(keys, count, scores);
    } else {
      product_.template multiply<false>(keys, count, scores);
      hide(count, scores);
    }
  }

  /// The online softmax: scores become weights relative to the largest score so far.
  __device__ __forceinline__ void weigh(Scores& scores, float scale) {
    float change[2];
    float offset[2];
    float units[2];
    bool changed = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float largest = largest_[row];
#pragma unroll
      for (int tile = 0; tile < kStepKeys / 8; ++tile) {
        largest = fmaxf(largest, fmaxf(scores[tile][2 * row], scores[tile][2 * row + 1]));
      }
      largest = prefill::columns_max(largest);
      units[row] = scale * product_.unit(row);
      change[row] = power_of_two((largest_[row] - largest) * units[row]);
      changed = changed || largest != largest_[row];
      largest_[row] = largest;
      offset[row] = -largest * units[row];
    }
    if (__any_sync(kAllLanes, changed)) {
      rescale(change);
    }
#pragma unroll
    for (int tile = 0; tile < kStepKeys / 8; ++tile) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores[tile][e] = power_of_two(fmaf(scores[tile][e], units[e / 2], offset[e / 2]));
        sum_[e / 2] += scores[tile][e];
      }
    }
  }

  /// Adds the values of a step times their weights.
  __device__ __forceinline__ void accumulate(std::uint32_t values, int count,
                                             const Scores& weights) {
    if (count == kStepKeys) {
      multiply_values<true>(values, count, weights);
    } else {
      multiply_values<false>(values, count, weights);
    }
  }

  /// Writes the first `count` of the warp's rows to y, `stride` elements apart, by way of its 16
  /// rows at `rows` in shared memory.
  __device__ __forceinline__ void finish(std::byte* rows, int count, __half* y,
                                         std::int64_t stride) {
    const int lane = lane_index();
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float inverse = 1.0f / prefill::columns_sum(sum_[row]);
      std::byte* const to = rows + (lane / 4 + 8 * row) * kRowBytes<D> + lane % 4 * 4;
#pragma unroll
      for (int tile = 0; tile < D / 8; ++tile) {
        *reinterpret_cast<__half2*>(to + 16 * tile) =
            __floats2half2_rn(out_[tile][2 * row] * inverse, out_[tile][2 * row + 1] * inverse);
      }
    }
    __syncwarp();
    constexpr int kChunks = D / 8;
#pragma unroll
    for (int chunk = lane; chunk < kWarpRows * kChunks; chunk += kWarp) {
      const int row = chunk / kChunks;
      const int at = chunk % kChunks;
      if (row < count) {
        *reinterpret_cast<uint4*>(y + row * stride + 8 * at) =
            *reinterpret_cast<const uint4*>(rows + row * kRowBytes<D> + 16 * at);
      }
    }
  }

 private:
  static __device__ __forceinline__ int lane_index() {
    return static_cast<int>(threadIdx.x) % kWarp;
  }

  __device__ __forceinline__ void hide(int count, Scores& scores) const {
    const int column = lane_index() % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < kStepKeys / 8; ++tile) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (8 * tile + column + e % 2 >= count) {
          scores[tile][e] = -INFINITY;
        }
      }
    }
  }

  __device__ __forceinline__ void rescale(const float (&change)[2]) {
    sum_[0] *= change[0];
    sum_[1] *= change[1];
#pragma unroll
    for (int tile = 0; tile < D / 8; ++tile) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        out_[tile][e] *= change[e / 2];
      }
    }
  }

  template <bool kWhole>
  __device__ __forceinline__ void multiply_values(std::uint32_t values, int count,
                                                  const Scores& weights) {
    const int lane = lane_index();
    const std::uint32_t at = values + lane % 16 * kRowBytes<D> + lane / 16 * 16;
#pragma unroll
    for (int block = 0; block < kStepKeys / 16; ++block) {
      if (kWhole || block * 16 < count) {
        Tile left;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float* pair = &weights[2 * block + r / 2][r % 2 * 2];
          const __half2 halves = __floats2half2_rn(pair[0], pair[1]);
          left.r[r] = *reinterpret_cast<const std::uint32_t*>(&halves);
        }
#pragma unroll
        for (int part = 0; part < D / 16; ++part) {
          std::uint32_t words[4];
          load_transposed(words, at + block * 16 * kRowBytes<D> + 32 * part);
          multiply_add(out_[2 * part], left, words[0], words[1]);
          multiply_add(out_[2 * part + 1], left, words[2], words[3]);
        }
      }
    }
  }

  Product product_;
  float out_[D / 8][4] = {};
  float largest_[2] = {-INFINITY, -INFINITY};
  float sum_[2] = {};
};

}  // namespace nibble::ops::cuda::packed
