#pragma once

#include <cstdint>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/head_elements.cuh"
#include "ops/cuda/attention/kv_store.cuh"
#include "ops/cuda/attention/rope_turns.cuh"
#include "ops/cuda/device_code/e4m3.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// A head's vector on its way into the cache, or to the keys: of queries, keys or values as the
/// product of q, k and v left them, for layouts in fragments. It lies in D / E lanes
/// (head_elements.cuh). A warp has 32 E / D heads, all of one kind, since they shuffle together.
namespace nibble::ops::cuda {

enum class HeadKind { kQuery, kKey, kValue };

/// saturated_half2() of each two of N floats; cheaper, where nothing lies beyond float16.
template <int N>
__device__ __forceinline__ void saturated_halves(const float (&x)[N],
                                                 std::uint32_t (&words)[N / 2]) {
  const __half2 zeros = __floats2half2_rn(0.0f, 0.0f);
  __half2 beyond = zeros;  // NaN after an infinite number
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const __half2 pair = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
    beyond = __hfma2(pair, zeros, beyond);
    words[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  if ((*reinterpret_cast<const std::uint32_t*>(&beyond) & 0x7fff7fffu) != 0) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      words[i] = saturated_half2(x[2 * i], x[2 * i + 1]);
    }
  }
}

/// The same bits for every E.
template <int D, int E>
class Head {
  using Elements = HeadElements<D, E>;

 public:
  static constexpr int kLanes = Elements::kLanes;

  Head() = default;
  __device__ Head(float4 x, int lane) : lane_(lane), x_{x.x, x.y, x.z, x.w} {
    static_assert(E == 4);
  }
  __device__ Head(const float* from, int lane) : lane_(lane) {
#pragma unroll
    for (int e = 0; e < E; e += 4) {
      const float4 x = four(from, e);
      x_[e] = x.x;
      x_[e + 1] = x.y;
      x_[e + 2] = x.z;
      x_[e + 3] = x.w;
    }
  }

  __device__ float4 elements() const {
    static_assert(E == 4);
    return {x_[0], x_[1], x_[2], x_[3]};
  }

  /// RMSNorm, RoPE, the key centre and the Hadamard turn, where the layer has them. `types`: those
  /// of its layout, which may be known at compile time.
  __device__ __forceinline__ void make_ready(const AttentionLayer& layer, const KvTypes& types,
                                             HeadKind kind, std::int64_t kv_head,
                                             const LaneTurns<D, E>& turns) {
    const bool is_value = kind == HeadKind::kValue;
    if (!is_value) {
      const float* weight = kind == HeadKind::kQuery ? layer.q_norm : layer.k_norm;
      if (weight != nullptr) {
        norm(weight, layer.norm_eps);
      }
      if (layer.rotary > 0) {
        turns.apply(x_);
      }
      if (kind == HeadKind::kKey && layer.key_centre != nullptr) {
        subtract(layer.key_centre + kv_head * D);
      }
    }
    if (layer.turned && (is_value ? types.values : types.keys) == KvType::kInt4) {
      turn_head<D>(x_);
    }
  }

  __device__ __forceinline__ void store_query(core::Fp16* to) const {
    std::uint32_t words[E / 2];
    saturated_halves(x_, words);
#pragma unroll
    for (int e = 0; e < E; e += 4) {
      *reinterpret_cast<uint2*>(to + Elements::first(lane_) + Elements::beyond(e)) = {
          words[e / 2], words[e / 2 + 1]};
    }
  }

  /// The key or value of token `token` of a page's block (kv_layout.h), where `there`; all lanes of
  /// the warp call.
  __device__ __forceinline__ void store(const KvLayout& layout, HeadKind kind, int token,
                                        std::byte* block, bool there) const {
    const bool is_value = kind == HeadKind::kValue;
    const KvType type = is_value ? layout.types.values : layout.types.keys;
    auto* bytes = reinterpret_cast<std::uint8_t*>(block + (is_value ? layout.key_bytes() : 0));
    if (type == KvType::kF16) {
      if (there) {
        store_halves(Place{true, !is_value, token, D}, bytes);
      }
      return;
    }
    auto* range = reinterpret_cast<std::uint32_t*>(block + range_offset(layout, !is_value, token));
    std::uint32_t codes[E];
    if (type == KvType::kFp8) {
#pragma unroll
      for (int e = 0; e < E; ++e) {
        codes[e] = e4m3_code(x_[e]);
      }
    } else if (type == KvType::kInt8) {
      count<Int8Range>(codes, range, there);
    } else {
      count<Int4Range>(codes, range, there);
    }
    if (type != KvType::kInt4) {
      if (there) {
        is_value ? store_bytes<false>(codes, token, bytes) : store_bytes<true>(codes, token, bytes);
      }
      return;
    }
    if constexpr (E == 4) {
      join_nibbles(codes);
    }
    if (there) {
      is_value ? store_nibbles<false>(codes, token, bytes)
               : store_nibbles<true>(codes, token, bytes);
    }
  }

  /// What store() keeps of it, as it is read.
  __device__ __forceinline__ Head as_stored(KvType type) const {
    Head kept = *this;
    switch (type) {
      case KvType::kInt8:
        kept.template round<Int8Range>();
        break;
      case KvType::kInt4:
        kept.template round<Int4Range>();
        break;
      case KvType::kFp8:
#pragma unroll
        for (int e = 0; e < E; e += 2) {
          const float2 pair =
              float2_of(halves_of_e4m3(e4m3_code(x_[e]) | e4m3_code(x_[e + 1]) << 8));
          kept.x_[e] = pair.x;
          kept.x_[e + 1] = pair.y;
        }
        break;
      default:
#pragma unroll
        for (float& x : kept.x_) {
          x = __half2float(__float2half_rn(x));
        }
    }
    return kept;
  }

 private:
  // Of a vector [D], at the lane's elements e .. e + 3.
  __device__ float4 four(const float* of_head, int e) const {
    return *reinterpret_cast<const float4*>(of_head + Elements::first(lane_) + Elements::beyond(e));
  }

  // Sums four elements in order, then those of elements that differ in the highest bit first.
  __device__ void norm(const float* weight, float eps) {
    float sums[E / 4] = {};
#pragma unroll
    for (int e = 0; e < E; ++e) {
      sums[e / 4] = fmaf(x_[e], x_[e], sums[e / 4]);
    }
    int left = E / 4;
#pragma unroll
    for (int bit = D / 2; bit >= 4; bit /= 2) {
      if (Elements::in_lane(bit)) {
        left /= 2;
      }
#pragma unroll
      for (int i = 0; i < left; ++i) {
        sums[i] += Elements::in_lane(bit)
                       ? sums[i + left]
                       : __shfl_xor_sync(kAllLanes, sums[i], Elements::lanes_apart(bit));
      }
    }
    const float factor = 1.0f / sqrtf(sums[0] / static_cast<float>(D) + eps);
#pragma unroll
    for (int e = 0; e < E; e += 4) {
      const float4 by = four(weight, e);
      x_[e] = __fmul_rn(__fmul_rn(x_[e], factor), by.x);
      x_[e + 1] = __fmul_rn(__fmul_rn(x_[e + 1], factor), by.y);
      x_[e + 2] = __fmul_rn(__fmul_rn(x_[e + 2], factor), by.z);
      x_[e + 3] = __fmul_rn(__fmul_rn(x_[e + 3], factor), by.w);
    }
  }

  __device__ void subtract(const float* centre) {
#pragma unroll
    for (int e = 0; e < E; e += 4) {
      const float4 by = four(centre, e);
      x_[e] = __fsub_rn(x_[e], by.x);
      x_[e + 1] = __fsub_rn(x_[e + 1], by.y);
      x_[e + 2] = __fsub_rn(x_[e + 2], by.z);
      x_[e + 3] = __fsub_rn(x_[e + 3], by.w);
    }
  }

  template <typename Range>
  __device__ __forceinline__ Range range() const {
    float low[E / 2];
    float high[E / 2];
#pragma unroll
    for (int e = 0; e < E / 2; ++e) {
      low[e] = min_or_nan(x_[e], x_[e + E / 2]);
      high[e] = max_or_nan(x_[e], x_[e + E / 2]);
    }
#pragma unroll
    for (int apart = E / 4; apart > 0; apart /= 2) {
#pragma unroll
      for (int e = 0; e < apart; ++e) {
        low[e] = min_or_nan(low[e], low[e + apart]);
        high[e] = max_or_nan(high[e], high[e + apart]);
      }
    }
    float smallest = low[0];
    float largest = high[0];
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      smallest = min_or_nan(smallest, __shfl_xor_sync(kAllLanes, smallest, distance));
      largest = max_or_nan(largest, __shfl_xor_sync(kAllLanes, largest, distance));
    }
    return Range::of(smallest, largest, is_finite(max_or_nan(-smallest, largest)));
  }

  // Codes, in low bytes, and where they are `there`, the range of the head.
  template <typename Range>
  __device__ __forceinline__ void count(std::uint32_t (&codes)[E], std::uint32_t* at,
                                        bool there) const {
    const auto of_head = range<Range>();
    if (there && lane_ == 0) {
      *at = of_head.halves;
    }
#pragma unroll
    for (int e = 0; e < E; ++e) {
      codes[e] = of_head.code(x_[e]);
    }
  }

  template <typename Range>
  __device__ __forceinline__ void round() {
    const auto of_head = range<Range>();
    const float2 step_and_smallest = float2_of(of_head.halves);
#pragma unroll
    for (float& x : x_) {
      const auto code = static_cast<float>(of_head.code(x) & 0xffu);
      x = fmaf(step_and_smallest.x, code, step_and_smallest.y);
    }
  }

  __device__ __forceinline__ void store_halves(const Place& place, std::uint8_t* bytes) const {
#pragma unroll
    for (int e = 0; e < E; e += 4) {
      const __half2 pairs[2] = {__floats2half2_rn(x_[e], x_[e + 1]),
                                __floats2half2_rn(x_[e + 2], x_[e + 3])};
      *reinterpret_cast<uint2*>(bytes +
                                place.half_at(Elements::first(lane_) + Elements::beyond(e))) =
          *reinterpret_cast<const uint2*>(pairs);
    }
  }

  // Codes lie in the low bytes of words. Bits of an element's number add up in where it goes, so
  // the lane's elements lie at distances that are known from that of its first one.

  template <bool kKeys>
  __device__ __forceinline__ void store_bytes(const std::uint32_t (&codes)[E], int token,
                                              std::uint8_t* bytes) const {
    constexpr int kTogether = kKeys ? 2 : 1;  // columns of keys follow one another
    bytes += Place{true, kKeys, token, D}.byte_at(Elements::first(lane_));
#pragma unroll
    for (int e = 0; e < E; e += kTogether) {
      std::uint8_t* const to = bytes + Place{true, kKeys, 0, D}.byte_at(Elements::beyond(e));
      if constexpr (kKeys) {
        *reinterpret_cast<std::uint16_t*>(to) =
            static_cast<std::uint16_t>(codes[e] + (codes[e + 1] << 8));
      } else {
        *to = static_cast<std::uint8_t>(codes[e]);
      }
    }
  }

  // Elements i and i + 8 share a byte. With E = 4 they are two lanes apart: of the bytes of such a
  // pair of lanes, one gets the first two, the other one the others.
  __device__ __forceinline__ void join_nibbles(std::uint32_t (&codes)[E]) const {
    const std::uint32_t word = __byte_perm(__byte_perm(codes[0], codes[1], 0x0040),
                                           __byte_perm(codes[2], codes[3], 0x0040), 0x5410);
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, word, 2);
    const std::uint32_t joined = (lane_ & 2) != 0 ? (other | word << 4) >> 16 : word | other << 4;
    codes[0] = joined;
    codes[1] = joined >> 8;
  }

  template <bool kKeys>
  __device__ __forceinline__ void store_nibbles(const std::uint32_t (&codes)[E], int token,
                                                std::uint8_t* bytes) const {
    const int first = E == 4 ? Elements::first(lane_ & ~2) + (lane_ & 2) : Elements::first(lane_);
    bytes += Place{true, kKeys, token, D}.nibbles_of(first);
#pragma unroll
    for (int e = 0; e < (E == 4 ? 2 : E); ++e) {
      std::uint8_t* const to = bytes + Place{true, kKeys, 0, D}.nibbles_of(Elements::beyond(e));
      if constexpr (E == 4) {
        *to = static_cast<std::uint8_t>(codes[e]);
      } else if ((e & 4) == 0) {
        *to = static_cast<std::uint8_t>(codes[e] + (codes[e + 4] << 4));
      }
    }
  }

  int lane_;  // of the head's
  float x_[E];
};

}  // namespace nibble::ops::cuda
