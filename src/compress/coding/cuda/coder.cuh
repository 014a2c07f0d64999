#pragma once

#include <cmath>
#include <cstdint>

#include "compress/coding/cuda/coder.h"
#include "ops/cuda/device_code/reduce.cuh"

namespace nibble::compress::cuda {

using ops::cuda::kAllLanes;
using ops::cuda::kWarp;

__device__ inline double warp_sum(double value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// formats::round_scale.
__device__ inline float round_scale(double scale) {
  const double magnitude = fmin(fmax(fabs(scale), 0x1p-24), 65504.0);
  const int exponent = max(ilogb(magnitude), -14) - 10;
  const auto rounded = static_cast<float>(ldexp(rint(ldexp(magnitude, -exponent)), exponent));
  return scale < 0 ? -rounded : rounded;
}

/// The coder of one row.
class Coder {
 public:
  __device__ Coder(const CoderView& view, std::int64_t row)
      : book_(view.books == nullptr ? nullptr : view.books + (view.book_of_row ? row : 0)),
        learned_(view.learned),
        bits_(view.bits),
        symmetric_(view.symmetric) {}

  __device__ const BookTable* book() const { return book_; }

  __device__ std::uint8_t encode(float weight, const GroupValues& group) const {
    return book_ != nullptr ? book_->codes[rank(weight, group.scale)] : nearest(weight, group);
  }

  /// What is left of a weight when it is rounded: the value of its code.
  __device__ float rounded(float weight, const GroupValues& group) const {
    return book_ != nullptr
               ? __fmul_rn(group.scale, book_->values[rank(weight, group.scale)])
               : __fmul_rn(group.scale, static_cast<float>(
                                            static_cast<int>(nearest(weight, group)) - group.zero));
  }

  /// Format::fit of read(0), ..., read(count - 1), by a whole warp.
  template <typename Read>
  __device__ GroupValues fit(int count, const Read& read) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    float low = 0;
    float high = 0;
    int low_at = count;  // of the first of the smallest
    int high_at = count;
    for (int i = lane; i < count; i += kWarp) {
      const float w = read(i);
      if (w < low) {
        low = w;
        low_at = i;
      }
      if (w > high) {
        high = w;
        high_at = i;
      }
    }
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const float other_low = __shfl_xor_sync(kAllLanes, low, distance);
      const int other_low_at = __shfl_xor_sync(kAllLanes, low_at, distance);
      if (other_low < low || (other_low == low && other_low_at < low_at)) {
        low = other_low;
        low_at = other_low_at;
      }
      const float other_high = __shfl_xor_sync(kAllLanes, high, distance);
      const int other_high_at = __shfl_xor_sync(kAllLanes, high_at, distance);
      if (other_high > high || (other_high == high && other_high_at < high_at)) {
        high = other_high;
        high_at = other_high_at;
      }
    }
    return of_range(low, high, low_at < high_at);
  }

  /// The same from the ends of the range, both on their side of zero.
  __device__ GroupValues of_range(float low, float high, bool low_first) const {
    const double magnitude = fmax(-static_cast<double>(low), static_cast<double>(high));
    const bool negative = -low > high || (-low == high && low_first);
    if (book_ != nullptr) {
      const double below = fabs(static_cast<double>(book_->values[0]));
      const double above = fabs(static_cast<double>(book_->values[kBookSize - 1]));
      // IQ4's values reach further below 0.
      const bool mirrored = !learned_ && below > above && !negative;
      return {round_scale((mirrored ? -magnitude : magnitude) / fmax(below, above)), 0};
    }
    const int middle = 1 << (bits_ - 1);
    if (!symmetric_) {
      const double last = (1 << bits_) - 1;
      const float scale =
          round_scale((static_cast<double>(high) - static_cast<double>(low)) / last);
      const double zero = rint(-static_cast<double>(low) / static_cast<double>(scale));
      return {scale, static_cast<int>(fmin(fmax(zero, 0.0), last))};
    }
    if (bits_ == 8) {
      return {round_scale(magnitude / 127), middle};
    }
    return {round_scale((negative ? magnitude : -magnitude) / middle), middle};
  }

 private:
  // How many midpoints between neighbours lie below weight / scale. The products are exact.
  __device__ int rank(float weight, float scale) const {
    const double value = scale < 0 ? -static_cast<double>(weight) : static_cast<double>(weight);
    const double unit = fabs(static_cast<double>(scale)) / 2;
    int below = 0;
#pragma unroll
    for (int step = kBookSize / 2; step > 0; step /= 2) {
      const int at = below + step - 1;
      const double sum =
          static_cast<double>(book_->values[at]) + static_cast<double>(book_->values[at + 1]);
      below += value > sum * unit ? step : 0;
    }
    return below;
  }

  __device__ std::uint8_t nearest(float weight, const GroupValues& group) const {
    const auto low = static_cast<float>((symmetric_ && bits_ == 8 ? 1 : 0) - group.zero);
    const auto high = static_cast<float>((1 << bits_) - 1 - group.zero);
    float steps = __fdiv_rn(weight, group.scale);
    steps = steps > low ? steps : low;  // NaN becomes the lowest code
    steps = steps < high ? steps : high;
    return static_cast<std::uint8_t>(static_cast<int>(rintf(steps)) + group.zero);
  }

  const BookTable* book_;
  bool learned_;
  int bits_;
  bool symmetric_;
};

}  // namespace nibble::compress::cuda
