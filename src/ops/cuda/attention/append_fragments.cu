#include <algorithm>

#include "ops/cuda/attention/append_fragments.h"
#include "ops/cuda/attention/head_output.cuh"
#include "ops/cuda/attention/kv_store.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// A head in D / 4 lanes, four elements in each; a block has some heads of one row, and the row's
/// sines in shared memory.
namespace nibble::ops::cuda {
namespace {

constexpr int kWarps = 8;

template <int D>
class Head {
 public:
  static constexpr int kLanes = D / 4;

  __device__ Head(const float* from, int lane) : lane_(lane) {
    const float4 x = *reinterpret_cast<const float4*>(from + 4 * lane);
    x_[0] = x.x;
    x_[1] = x.y;
    x_[2] = x.z;
    x_[3] = x.w;
  }

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

  /// As cpu::rotate; cosines and sines of `half` angles.
  __device__ void rotate(const float* cosines, const float* sines, int half) {
    const int lanes = half / 4;
    const bool first = lane_ < lanes;
    const bool second = !first && lane_ < 2 * lanes;
    const int partner = first ? lane_ + lanes : second ? lane_ - lanes : lane_;
    const int base = static_cast<int>(threadIdx.x) % kWarp / kLanes * kLanes;
    const int angle = 4 * (first ? lane_ : partner);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float other = __shfl_sync(kAllLanes, x_[e], base + partner);
      if (first || second) {
        const float mine = __fmul_rn(x_[e], cosines[angle + e]);
        const float cross = __fmul_rn(other, sines[angle + e]);
        x_[e] = first ? __fsub_rn(mine, cross) : __fadd_rn(mine, cross);
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

  __device__ void store_query(core::Fp16* to) const {
    *reinterpret_cast<uint2*>(to + 4 * lane_) = {saturated_half2(x_[0], x_[1]),
                                                 saturated_half2(x_[2], x_[3])};
  }

  __device__ KvRange range(float levels) const {
    float smallest = fminf(fminf(x_[0], x_[1]), fminf(x_[2], x_[3]));
    float largest = fmaxf(fmaxf(x_[0], x_[1]), fmaxf(x_[2], x_[3]));
    int finite = is_finite(x_[0]) && is_finite(x_[1]) && is_finite(x_[2]) && is_finite(x_[3]);
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      smallest = fminf(smallest, __shfl_xor_sync(kAllLanes, smallest, distance));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
      finite &= __shfl_xor_sync(kAllLanes, finite, distance);
    }
    return KvRange::of(smallest, largest, levels, finite != 0);
  }

  /// Keys or values of a token, where `there`; all lanes of the warp call.
  __device__ void store(KvType type, const Place& place, std::byte* half, std::uint32_t* range_at,
                        bool there) const {
    auto* bytes = reinterpret_cast<std::uint8_t*>(half);
    if (type == KvType::kF16) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (there) {
          *reinterpret_cast<__half*>(bytes + place.half_at(4 * lane_ + e)) = __float2half_rn(x_[e]);
        }
      }
      return;
    }
    const KvRange numbers = range(type == KvType::kInt8 ? 255.0f : 15.0f);
    if (there && lane_ == 0) {
      *range_at = numbers.halves;
    }
    std::uint32_t word = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      word |= numbers.code(x_[e]) << (8 * e);
    }
    if (type == KvType::kInt8) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (there) {
          bytes[place.byte_at(4 * lane_ + e)] = static_cast<std::uint8_t>(word >> (8 * e));
        }
      }
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

 private:
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

template <int D>
__global__ void __launch_bounds__(kWarps* kWarp)
    append_kernel(AttentionLayer layer, const float* qkv, const std::int32_t* positions,
                  const std::int32_t* slots, core::Fp16* queries, std::byte* pages) {
  __shared__ float cosines[D / 2];
  __shared__ float sines[D / 2];
  constexpr int kLanes = Head<D>::kLanes;
  constexpr int kHeadsOfWarp = kWarp / kLanes;
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t row = blockIdx.x;
  const int half = static_cast<int>(layer.rotary) / 2;
  if (static_cast<int>(threadIdx.x) < half) {
    float sine;
    float cosine;
    sincosf(__fmul_rn(static_cast<float>(positions[row]), layer.inverse_frequency[threadIdx.x]),
            &sine, &cosine);
    sines[threadIdx.x] = __fmul_rn(sine, layer.rope_factor);
    cosines[threadIdx.x] = __fmul_rn(cosine, layer.rope_factor);
  }
  __syncthreads();
  const KvLayout& layout = layer.layout;
  const int heads = static_cast<int>(layer.heads);
  const int kv_heads = static_cast<int>(layout.kv_heads);
  const int all = heads + 2 * kv_heads;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int32_t slot = slots[row];
  const int token = slot % static_cast<int>(kPageTokens);
  const int step = static_cast<int>(gridDim.y) * kWarps * kHeadsOfWarp;
  for (int first = (static_cast<int>(blockIdx.y) * kWarps + warp) * kHeadsOfWarp; first < all;
       first += step) {
    const int wanted = first + lane / kLanes;
    const bool there = wanted < all;
    const int head = there ? wanted : all - 1;
    const bool is_query = head < heads;
    const bool is_value = head >= heads + kv_heads;
    Head<D> x(qkv + (row * all + head) * D, lane % kLanes);
    if (!is_value) {
      const float* weight = is_query ? layer.q_norm : layer.k_norm;
      if (weight != nullptr) {
        x.norm(weight, layer.norm_eps);
      }
    }
    if (!is_value && half > 0) {
      x.rotate(cosines, sines, half);
    }
    if (!is_query && !is_value && layer.key_centre != nullptr) {
      x.subtract(layer.key_centre + (head - heads) * D);
    }
    const KvType type = is_value ? layout.types.values : layout.types.keys;
    if (layer.turned && type == KvType::kInt4) {
      x.turn();
    }
    if (is_query) {
      if (there) {
        x.store_query(queries + (row * heads + head) * D);
      }
      continue;
    }
    const int kv_head = head - heads - (is_value ? kv_heads : 0);
    std::byte* block =
        pages + (max(slot, 0) / kPageTokens * kv_heads + kv_head) * layout.block_bytes();
    std::byte* range = block + layout.key_bytes() + layout.value_bytes() + 16 * (token % 8) +
                       4 * (token / 8) + (is_value ? 8 : 0);
    x.store(type, {true, !is_value, token, D}, block + (is_value ? layout.key_bytes() : 0),
            reinterpret_cast<std::uint32_t*>(range), there && slot >= 0);
  }
}

template <int D>
void run(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan, std::int64_t m,
         const Queries& queries, std::byte* pages, cudaStream_t stream) {
  constexpr std::int64_t kFewBlocks = 528;
  constexpr std::int64_t kHeadsOfBlock = kWarps * kWarp / Head<D>::kLanes;
  const std::int64_t heads = layer.heads + 2 * layer.layout.kv_heads;
  const std::int64_t most = (heads + kHeadsOfBlock - 1) / kHeadsOfBlock;
  const std::int64_t parts = std::clamp<std::int64_t>(kFewBlocks / m, 1, most);
  launch_dependent(append_kernel<D>, dim3(static_cast<unsigned>(m), static_cast<unsigned>(parts)),
                   dim3(kWarps * kWarp), 0, stream, layer, qkv, plan.positions, plan.slots,
                   queries.halves, pages);
}

}  // namespace

bool append_fragments(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan,
                      std::int64_t m, const Queries& queries, std::byte* pages,
                      cudaStream_t stream) {
  // Heads of one warp must be of one kind, since they shuffle together.
  const std::int64_t heads_of_warp = 128 / layer.layout.head_dim;
  const bool one_kind = heads_of_warp > 0 && layer.heads % heads_of_warp == 0 &&
                        layer.layout.kv_heads % heads_of_warp == 0;
  if (!layer.layout.fragments() || layer.rotary % 8 != 0 || !one_kind ||
      reinterpret_cast<std::uintptr_t>(qkv) % sizeof(float4) != 0) {
    return false;
  }
  layer.layout.head_dim == 64 ? run<64>(layer, qkv, plan, m, queries, pages, stream)
                              : run<128>(layer, qkv, plan, m, queries, pages, stream);
  return true;
}

}  // namespace nibble::ops::cuda
