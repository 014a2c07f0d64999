#pragma once

#include <cstdint>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/head_elements.cuh"
#include "ops/cuda/device_code/reduce.cuh"

namespace nibble::ops::cuda {

/// Cosine and sine of RoPE's angle i at a position, as cpu::Rotation.
__device__ __forceinline__ float2 rope_turn(const AttentionLayer& layer, float position, int i) {
  float sine;
  float cosine;
  sincosf(__fmul_rn(position, layer.inverse_frequency[i]), &sine, &cosine);
  return {__fmul_rn(cosine, layer.rope_factor), __fmul_rn(sine, layer.rope_factor)};
}

/// How RoPE turns the elements that a lane has (HeadElements): by which angles, and with those of
/// which lane, unless both of a pair lie in one.
template <int D, int E>
class LaneTurns {
  using Elements = HeadElements<D, E>;
  static constexpr bool kInLane = Elements::in_lane(D / 2);

 public:
  /// Whether RoPE of so many elements of a head can be told so.
  static constexpr bool serves(std::int64_t rotary) {
    return kInLane ? rotary == 0 || rotary == D : rotary % 8 == 0;
  }

  /// `half`: angles; turn(i): cosine and sine of angle i.
  template <typename Turn>
  __device__ __forceinline__ LaneTurns(int lane, int half, const Turn& turn) {
    const int apart = Elements::lanes_apart(half);
    const int element = Elements::first(lane);
    const bool first = element < half;  // has the first elements of pairs
    turns_ = element < (kInLane ? half : 2 * half);
    partner_ = !turns_ ? lane : first ? lane + apart : lane - apart;
    const int angle = kInLane || first ? element : element - half;
    const float sign = !kInLane && first ? -1.0f : 1.0f;
#pragma unroll
    for (int e = 0; e < kAngles; ++e) {
      by_[e] = turns_ ? turn(angle + Elements::beyond(e)) : float2{};
      by_[e].y *= sign;
    }
  }

  /// As cpu::rotate. All lanes of the warp call.
  __device__ __forceinline__ void apply(float (&x)[E]) const {
    if constexpr (kInLane) {
#pragma unroll
      for (int e = 0; e < kAngles; ++e) {
        const float a = x[e];
        const float b = x[e + E / 2];
        x[e] = __fsub_rn(__fmul_rn(a, by_[e].x), __fmul_rn(b, by_[e].y));
        x[e + E / 2] = __fadd_rn(__fmul_rn(b, by_[e].x), __fmul_rn(a, by_[e].y));
      }
    } else {
      constexpr int kLanes = Elements::kLanes;
      const int from = static_cast<int>(threadIdx.x % kWarp / kLanes * kLanes) + partner_;
#pragma unroll
      for (int e = 0; e < kAngles; ++e) {
        const float other = __shfl_sync(kAllLanes, x[e], from);
        if (turns_) {
          x[e] = __fadd_rn(__fmul_rn(x[e], by_[e].x), __fmul_rn(other, by_[e].y));
        }
      }
    }
  }

 private:
  static constexpr int kAngles = kInLane ? E / 2 : E;
  bool turns_;
  int partner_;         // lane of the head's
  float2 by_[kAngles];  // the sine is negative where it is subtracted
};

}  // namespace nibble::ops::cuda
