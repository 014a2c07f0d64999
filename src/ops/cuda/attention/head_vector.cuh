#pragma once

#include <cstdint>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/head_output.cuh"
#include "ops/cuda/attention/kv_store.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// A head's vector on its way into the cache, or to the keys: of queries, keys or values as the
/// product of q, k and v left them, for layouts in fragments. It lies in D / 4 lanes, four elements
/// in each. A warp has 128 / D heads, all of one kind, since they shuffle together.
namespace nibble::ops::cuda {

enum class HeadKind { kQuery, kKey, kValue };

/// Cosine and sine of RoPE's angle i at a position, as cpu::Rotation.
__device__ __forceinline__ float2 rope_turn(const AttentionLayer& layer, float position, int i) {
  float sine;
  float cosine;
  sincosf(__fmul_rn(position, layer.inverse_frequency[i]), &sine, &cosine);
  return {__fmul_rn(cosine, layer.rope_factor), __fmul_rn(sine, layer.rope_factor)};
}

/// How RoPE turns the four elements of a lane: with those of which lane, by which angles.
class LaneTurns {
 public:
  /// `half`: angles, a multiple of 4; turn(i): cosine and sine of angle i.
  template <typename Turn>
  __device__ __forceinline__ LaneTurns(int lane, int half, const Turn& turn)
      : first_(lane < half / 4), second_(!first_ && lane < half / 2) {
    partner_ = first_ ? lane + half / 4 : second_ ? lane - half / 4 : lane;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      by_[e] = turns() ? turn(4 * min(lane, partner_) + e) : float2{};
    }
  }
  __device__ bool turns() const {
    return first_ || second_;
  }
  /// Lane of the head's.
  __device__ int partner() const {
    return partner_;
  }
  /// Element e of the lane, `other` of the partner's. As cpu::rotate.
  __device__ __forceinline__ float turned(int e, float mine, float other) const {
    const float straight = __fmul_rn(mine, by_[e].x);
    const float cross = __fmul_rn(other, by_[e].y);
    return first_ ? __fsub_rn(straight, cross) : __fadd_rn(straight, cross);
  }

 private:
  bool first_;   // has the first elements of pairs
  bool second_;  // the second ones
  int partner_;
  float2 by_[4];
};

template <int D>
class Head {
 public:
  static constexpr int kLanes = D / 4;

  Head() = default;
  __device__ Head(const float* from, int lane) : lane_(lane) {
    const float4 x = *reinterpret_cast<const float4*>(from + 4 * lane);
    x_[0] = x.x;
    x_[1] = x.y;
    x_[2] = x.z;
    x_[3] = x.w;
  }

  /// RMSNorm, RoPE, the key centre and the Hadamard turn, where the layer has them. `types`: those
  /// of its layout, which may be known at compile time.
  __device__ __forceinline__ void make_ready(const AttentionLayer& layer, const KvTypes& types,
                                             HeadKind kind, std::int64_t kv_head,
                                             const LaneTurns& turns) {
    const bool is_value = kind == HeadKind::kValue;
    const float* weight = kind == HeadKind::kQuery ? layer.q_norm : layer.k_norm;
    if (!is_value && weight != nullptr) {
      norm(weight, layer.norm_eps);
    }
    if (!is_value && layer.rotary > 0) {
      rotate(turns);
    }
    if (kind == HeadKind::kKey && layer.key_centre != nullptr) {
      subtract(layer.key_centre + kv_head * D);
    }
    if (layer.turned && (is_value ? types.values : types.keys) == KvType::kInt4) {
      turn();
    }
  }

  __device__ void store_query(core::Fp16* to) const {
    *reinterpret_cast<uint2*>(to + 4 * lane_) = {saturated_half2(x_[0], x_[1]),
                                                 saturated_half2(x_[2], x_[3])};
  }

  /// The key or value of token `token` of a page's block (kv_layout.h), where `there`; all lanes of
  /// the warp call.
  __device__ __forceinline__ void store(const KvLayout& layout, HeadKind kind, int token,
                                        std::byte* block, bool there) const {
    const bool is_value = kind == HeadKind::kValue;
    auto* range = reinterpret_cast<std::uint32_t*>(block + range_offset(layout, !is_value, token));
    store_half(is_value ? layout.types.values : layout.types.keys, {true, !is_value, token, D},
               block + (is_value ? layout.key_bytes() : 0), range, there);
  }

 private:
  __device__ void norm(const float* weight, float eps) {
    float squares = 0.0f;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      squares = fmaf(x_[e], x_[e], squares);
    }
    const float factor = 1.0f / sqrtf(sum(squares) / static_cast<float>(D) + eps);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      x_[e] = __fmul_rn(__fmul_rn(x_[e], factor), weight[4 * lane_ + e]);
    }
  }

  __device__ void rotate(const LaneTurns& turns) {
    const int base = static_cast<int>(threadIdx.x) % kWarp / kLanes * kLanes;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float other = __shfl_sync(kAllLanes, x_[e], base + turns.partner());
      if (turns.turns()) {
        x_[e] = turns.turned(e, x_[e], other);
      }
    }
  }

  __device__ void subtract(const float* centre) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      x_[e] = __fsub_rn(x_[e], centre[4 * lane_ + e]);
    }
  }

  __device__ void turn() {
    float4 x = {x_[0], x_[1], x_[2], x_[3]};
    turn_head<D>(x);
    x_[0] = x.x;
    x_[1] = x.y;
    x_[2] = x.z;
    x_[3] = x.w;
  }

  __device__ KvRange range(float levels) const {
    float smallest = fminf(fminf(x_[0], x_[1]), fminf(x_[2], x_[3]));
    float largest = fmaxf(fmaxf(x_[0], x_[1]), fmaxf(x_[2], x_[3]));
    const bool finite =
        is_finite(x_[0]) && is_finite(x_[1]) && is_finite(x_[2]) && is_finite(x_[3]);
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      smallest = fminf(smallest, __shfl_xor_sync(kAllLanes, smallest, distance));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
    }
    const int first_lane = static_cast<int>(threadIdx.x) % kWarp / kLanes * kLanes;
    const unsigned of_head = (kAllLanes >> (kWarp - kLanes)) << first_lane;
    const unsigned finite_lanes = __ballot_sync(kAllLanes, finite) & of_head;
    return KvRange::of(smallest, largest, levels, finite_lanes == of_head);
  }

  // Codes of 8 bits, element 4 lane_ + e in byte e of the word.
  __device__ __forceinline__ void store_bytes(std::uint32_t word, const Place& place,
                                              std::uint8_t* bytes, bool there) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (there) {
        bytes[place.byte_at(4 * lane_ + e)] = static_cast<std::uint8_t>(word >> (8 * e));
      }
    }
  }

  __device__ void store_half(KvType type, const Place& place, std::byte* half,
                             std::uint32_t* range_at, bool there) const {
    auto* bytes = reinterpret_cast<std::uint8_t*>(half);
    if (type == KvType::kF16) {
      if (there) {
        const __half2 pairs[2] = {__floats2half2_rn(x_[0], x_[1]), __floats2half2_rn(x_[2], x_[3])};
        *reinterpret_cast<uint2*>(bytes + place.half_at(4 * lane_)) =
            *reinterpret_cast<const uint2*>(pairs);
      }
      return;
    }
    std::uint32_t word = 0;
    if (type == KvType::kFp8) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        word |= e4m3_code(x_[e]) << (8 * e);
      }
      store_bytes(word, place, bytes, there);
      return;
    }
    const KvRange numbers = range(type == KvType::kInt8 ? 255.0f : 15.0f);
    if (there && lane_ == 0) {
      *range_at = numbers.halves;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      word |= numbers.code(x_[e]) << (8 * e);
    }
    if (type == KvType::kInt8) {
      store_bytes(word, place, bytes, there);
      return;
    }
    // Elements i and i + 8 share a byte: they are two lanes apart, and each lane writes two bytes.
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, word, 2);
    const bool upper = (lane_ & 2) != 0;
    const std::uint32_t pairs = upper ? other | word << 4 : word | other << 4;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int e = upper ? 2 + k : k;
      const int i = 4 * (lane_ & ~2) + e;
      if (there) {
        bytes[place.nibbles_at(i / 16 * 8 + i % 8)] = static_cast<std::uint8_t>(pairs >> (8 * e));
      }
    }
  }

  static __device__ float sum(float value) {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      value += __shfl_xor_sync(kAllLanes, value, distance);
    }
    return value;
  }

  int lane_;  // of the head's
  float x_[4];
};

}  // namespace nibble::ops::cuda
