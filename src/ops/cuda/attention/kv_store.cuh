#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "ops/cuda/attention/kv_layout.h"

namespace nibble::ops::cuda {

__device__ __forceinline__ bool is_finite(float x) {
  return fabsf(x) < __int_as_float(0x7f800000);
}

/// NaN where one of them is.
__device__ __forceinline__ float min_or_nan(float a, float b) {
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
}
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}

/// As core::to_e4m3.
__device__ __forceinline__ std::uint32_t e4m3_code(float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}

/// A range in float16, and how values are counted in it, from 0 to kTop: as cpu::KvPool::store.
template <int kTop>
struct KvRange {
  std::uint32_t halves;  // step, smallest
  float from;
  float inverse;  // of kTop + 1 steps, a power of two of them

  /// The code of x, in the low byte. What is not finite gets code 0, as all of its vector does.
  __device__ __forceinline__ std::uint32_t code(float x) const {
    constexpr float kSteps = kTop + 1;
    constexpr float kMost = kTop / kSteps;
    constexpr float kNoFraction = 12582912.0f;  // 1.5 * 2^23: sums are integers, in the low bits
    const float part = __saturatef(__fmul_rn(__fsub_rn(x, from), inverse));
    return __float_as_uint(fmaf(fminf(part, kMost), kSteps, kNoFraction));
  }

  static __device__ __forceinline__ KvRange of(float smallest, float largest, bool finite) {
    if (!finite) {
      return {0x7e007e00u, 0.0f, 0.0f};
    }
    constexpr float kOfSteps = 1.0f / (kTop + 1);
    const __half low = __float2half_rn(smallest);
    const float from = __half2float(low);
    const __half step = __float2half_rn(of_top(__fsub_rn(largest, from)));
    const float width = __half2float(step);
    return {static_cast<std::uint32_t>(__half_as_ushort(step)) |
                static_cast<std::uint32_t>(__half_as_ushort(low)) << 16,
            from, width > 0 ? __fmul_rn(__frcp_rn(width), kOfSteps) : 0.0f};
  }

 private:
  // x / kTop, correctly rounded unless it is far below float16: 1 / kTop in two parts, the second
  // positive, so that infinity stays (N. Brisebarre, J.-M. Muller and S. Raina, IEEE Transactions
  // on Computers 53, 2004).
  static __device__ __forceinline__ float of_top(float x) {
    static_assert(kTop == 15 || kTop == 255);
    constexpr float kHigh = kTop == 15 ? 0x1.11111p-4f : 0x1.0101p-8f;
    constexpr auto kLow = static_cast<float>((1.0 - kTop * static_cast<double>(kHigh)) / kTop);
    return fmaf(x, kHigh, __fmul_rn(x, kLow));
  }
};
using Int8Range = KvRange<255>;
using Int4Range = KvRange<15>;

/// Where in a block the range of a token's key or value lies (kv_layout.h).
__device__ __forceinline__ std::int64_t range_offset(const KvLayout& layout, bool keys, int token) {
  return layout.key_bytes() + layout.value_bytes() + 16 * (token % 8) + 4 * (token / 8) +
         (keys ? 0 : 8);
}

/// Where an element of the vector of one token lies in its half of a block (kv_layout.h): the byte
/// of 8 and 16 bits, and of 4 bits that of the elements i and i + 8.
struct Place {
  bool fragments;
  bool keys;
  int token;
  int dim;

  __device__ int row(int i) const { return keys ? token : i % 16; }
  __device__ int column(int i) const { return keys ? i % 16 : token; }
  __device__ int lane_byte(int i) const { return 16 * (4 * (row(i) % 8) + column(i) % 8 / 2); }
  __device__ int half_at(int i) const {  // in bytes
    if (!fragments) {
      return 2 * (token * dim + i);
    }
    return 128 * (token / 8 * (dim / 8) + i / 8) + 16 * (token % 8) + 2 * (i % 8);
  }
  __device__ int byte_at(int i) const {
    if (!fragments) {
      return token * dim + i;
    }
    return i / 32 * 512 + lane_byte(i) + i / 16 % 2 * 8 + 4 * (column(i) / 8) + 2 * (row(i) / 8) +
           column(i) % 2;
  }
  // `pair` counts pairs of elements: 2 pair and the next, or i and i + 8 within 16.
  __device__ int first_of(int pair) const {
    return fragments ? pair / 8 * 16 + pair % 8 : 2 * pair;
  }
  __device__ int second_of(int pair) const { return first_of(pair) + (fragments ? 8 : 1); }
  __device__ int nibbles_at(int pair) const {
    return fragments ? nibbles_of(first_of(pair)) : token * dim / 2 + pair;
  }
  // The byte of element i, and of i + 8, in fragments.
  __device__ int nibbles_of(int i) const {
    return i / 64 * 512 + lane_byte(i) + i / 16 % 4 * 4 + 2 * (column(i) % 2) +
           (keys ? row(i) / 8 : column(i) / 8);
  }
};

}  // namespace nibble::ops::cuda
