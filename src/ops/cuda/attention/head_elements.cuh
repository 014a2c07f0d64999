#pragma once

#include "ops/cuda/device_code/reduce.cuh"

namespace nibble::ops::cuda {

/// Which elements of a head of D a lane has: E of 4 or 16, so that D / E lanes have a head. Bits of
/// an element's number that count those of a lane, lowest first: 1 and 2, which follow one another
/// in memory; of 16 elements, 8, by which the two nibbles of a byte differ, and D / 2, by which
/// pairs of RoPE over the whole head do. The others count lanes.
template <int D, int E>
struct HeadElements {
  static_assert((D == 64 || D == 128) && (E == 4 || E == 16));
  static constexpr int kLanes = D / E;

  /// The lane's element e is that number first(lane) + beyond(e) of the head.
  static constexpr int first(int lane) { return E == 4 ? 4 * lane : lane / 2 * 16 + lane % 2 * 4; }
  static constexpr int beyond(int e) { return e % 4 + e / 4 % 2 * 8 + e / 8 * (D / 2); }

  /// Whether elements whose numbers differ in bit `bit` lie in one lane.
  static constexpr bool in_lane(int bit) {
    return bit < 4 || (E == 16 && (bit == 8 || bit == D / 2));
  }
  /// How far apart they are there.
  static constexpr int elements_apart(int bit) { return bit < 4 ? bit : bit == 8 ? 4 : 8; }
  /// Else, lanes between elements that are `distance` apart: 4, or a multiple of 16, or of 4 with
  /// E = 4.
  static constexpr int lanes_apart(int distance) {
    return E == 4 || distance == 4 ? distance / 4 : distance / 8;
  }
};

/// x <- x H for a head of D elements, a power of two. All lanes of the warp call.
template <int D, int E>
__device__ __forceinline__ void turn_head(float (&x)[E]) {
  using Elements = HeadElements<D, E>;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int bit = 1; bit < D; bit *= 2) {
    if (Elements::in_lane(bit)) {
      const int apart = Elements::elements_apart(bit);
#pragma unroll
      for (int e = 0; e < E; ++e) {
        if ((e & apart) == 0) {
          const float a = x[e];
          const float b = x[e + apart];
          x[e] = a + b;
          x[e + apart] = a - b;
        }
      }
    } else {
      const int apart = Elements::lanes_apart(bit);
      const float sign = (lane & apart) != 0 ? -1.0f : 1.0f;
#pragma unroll
      for (int e = 0; e < E; ++e) {  // other - mine, or other + mine
        x[e] = fmaf(sign, x[e], __shfl_xor_sync(kAllLanes, x[e], apart));
      }
    }
  }
  const float scale = 1.0f / sqrtf(static_cast<float>(D));
#pragma unroll
  for (int e = 0; e < E; ++e) {
    x[e] *= scale;
  }
}

}  // namespace nibble::ops::cuda
