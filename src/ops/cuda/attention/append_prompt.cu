#include <algorithm>

#include "ops/cuda/attention/append_prompt.h"
#include "ops/cuda/attention/kv_store.cuh"
#include "ops/cuda/attention/rope_turns.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// A warp has eight rows, whose tokens make whole matrices of a page where they follow one another,
/// and some heads; the warps of a block have the same rows. Lane 4g + t has of row g the pieces 4j
/// + t of eight elements each: what RoPE pairs lies in one lane, whose sines serve all heads.
namespace nibble::ops::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kRows = 8;
constexpr std::int64_t kFewestRows = 64;

template <int D>
class Pieces {
 public:
  static constexpr int kPieces = D / 32;  // of a lane

  /// Piece j of the lane begins at element 8 (4j + t).
  __device__ static int element(int j, int t) { return 8 * (4 * j + t); }

  __device__ __forceinline__ void load(const float* head, int t) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const auto* from = reinterpret_cast<const float4*>(head + element(j, t));
      const float4 low = from[0];
      const float4 high = from[1];
      const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        x_[j][e] = values[e];
      }
    }
  }

  /// RMSNorm. Sums in the order of Head::norm: pairs of fours that differ in the highest bit first.
  __device__ __forceinline__ void norm(const float* weight, float eps, int t) {
    float sums[kPieces][2];
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = 0.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum = fmaf(x_[j][4 * half + e], x_[j][4 * half + e], sum);
        }
        sums[j][half] = sum;
      }
    }
#pragma unroll
    for (int distance = kPieces / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int j = 0; j < distance; ++j) {
        sums[j][0] += sums[j + distance][0];
        sums[j][1] += sums[j + distance][1];
      }
    }
#pragma unroll
    for (int distance = 2; distance > 0; distance /= 2) {
      sums[0][0] += __shfl_xor_sync(kAllLanes, sums[0][0], distance);
      sums[0][1] += __shfl_xor_sync(kAllLanes, sums[0][1], distance);
    }
    const float factor = 1.0f / sqrtf((sums[0][0] + sums[0][1]) / static_cast<float>(D) + eps);
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        x_[j][e] = __fmul_rn(__fmul_rn(x_[j][e], factor), weight[element(j, t) + e]);
      }
    }
  }

  /// Turns elements i and i + 32 kApart by the angle of i. As cpu::rotate.
  template <int kApart>
  __device__ __forceinline__ void rotate(const float2 (&turns)[kApart][8]) {
#pragma unroll
    for (int j = 0; j < kApart; ++j) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float a = x_[j][e];
        const float b = x_[j + kApart][e];
        const float2 turn = turns[j][e];
        x_[j][e] = __fsub_rn(__fmul_rn(a, turn.x), __fmul_rn(b, turn.y));
        x_[j + kApart][e] = __fadd_rn(__fmul_rn(b, turn.x), __fmul_rn(a, turn.y));
      }
    }
  }

  __device__ __forceinline__ void subtract(const float* centre, int t) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        x_[j][e] = __fsub_rn(x_[j][e], centre[element(j, t) + e]);
      }
    }
  }

  /// Queries are cut to the range of float16; keys and values become infinite beyond it, as in
  /// cpu::KvPool::store.
  template <bool kSaturated>
  __device__ __forceinline__ uint4 halves(int j) const {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kSaturated) {
        words[i] = saturated_half2(x_[j][2 * i], x_[j][2 * i + 1]);
      } else {
        const __half2 pair = __floats2half2_rn(x_[j][2 * i], x_[j][2 * i + 1]);
        words[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
      }
    }
    return {words[0], words[1], words[2], words[3]};
  }

 private:
  float x_[kPieces][8];
};

/// kApart: pieces between what RoPE pairs, rotary / 64; 0: nothing turns.
template <int D, int kApart>
__global__ void __launch_bounds__(kWarps* kWarp)
    append_kernel(AttentionLayer layer, const float* qkv, const std::int32_t* positions,
                  const std::int32_t* slots, std::int64_t m, core::Fp16* queries,
                  std::byte* pages) {
  launch_dependents();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int t = lane % 4;
  const std::int64_t wanted = static_cast<std::int64_t>(blockIdx.x) * kRows + lane / 4;
  const bool there = wanted < m;
  const std::int64_t row = there ? wanted : m - 1;
  wait_for_predecessor();
  float2 turns[kApart > 0 ? kApart : 1][8];
  if constexpr (kApart > 0) {
    constexpr int kAngles = 32 * kApart;
    __shared__ float2 of_rows[kRows][kAngles + 2];  // the padding keeps rows in different banks
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kAngles; i += kWarps * kWarp) {
      const std::int64_t of =
          min(static_cast<std::int64_t>(blockIdx.x) * kRows + i / kAngles, m - 1);
      of_rows[i / kAngles][i % kAngles] =
          rope_turn(layer, static_cast<float>(positions[of]), i % kAngles);
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kApart; ++j) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        turns[j][e] = of_rows[lane / 4][Pieces<D>::element(j, t) + e];
      }
    }
  }
  const int heads = static_cast<int>(layer.heads);
  const int kv_heads = static_cast<int>(layer.layout.kv_heads);
  const int all = heads + 2 * kv_heads;
  const std::int32_t slot = slots[row];
  const bool keeps = there && slot >= 0;
  std::byte* const page = pages + max(slot, 0) / kPageTokens * layer.layout.page_bytes();
  const Place place{true, true, slot % static_cast<int>(kPageTokens), D};
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int head = static_cast<int>(blockIdx.y) * kWarps + warp; head < all;
       head += static_cast<int>(gridDim.y) * kWarps) {
    const bool is_query = head < heads;
    const bool is_value = head >= heads + kv_heads;
    const int kv_head = head - heads - (is_value ? kv_heads : 0);
    Pieces<D> x;
    x.load(qkv + (row * all + head) * D, t);
    if (!is_value) {
      const float* weight = is_query ? layer.q_norm : layer.k_norm;
      if (weight != nullptr) {
        x.norm(weight, layer.norm_eps, t);
      }
      if constexpr (kApart > 0) {
        x.rotate(turns);
      }
      if (!is_query && layer.key_centre != nullptr) {
        x.subtract(layer.key_centre + kv_head * D, t);
      }
    }
    std::byte* const block =
        page + kv_head * layer.layout.block_bytes() + (is_value ? layer.layout.key_bytes() : 0);
#pragma unroll
    for (int j = 0; j < Pieces<D>::kPieces; ++j) {
      const int element = Pieces<D>::element(j, t);
      if (is_query) {
        if (there) {
          *reinterpret_cast<uint4*>(queries + (row * heads + head) * D + element) =
              x.template halves<true>(j);
        }
      } else if (keeps) {
        *reinterpret_cast<uint4*>(block + place.half_at(element)) = x.template halves<false>(j);
      }
    }
  }
}

template <int D, int kApart>
void run(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan, std::int64_t m,
         core::Fp16* queries, std::byte* pages, cudaStream_t stream) {
  constexpr std::int64_t kWarpsAtOnce = 2640;  // of a large device
  const std::int64_t groups = (m + kRows - 1) / kRows;
  const std::int64_t most = (layer.heads + 2 * layer.layout.kv_heads + kWarps - 1) / kWarps;
  const std::int64_t parts = std::clamp<std::int64_t>(kWarpsAtOnce / kWarps / groups, 1, most);
  launch_dependent(
      append_kernel<D, kApart>, dim3(static_cast<unsigned>(groups), static_cast<unsigned>(parts)),
      dim3(kWarps * kWarp), 0, stream, layer, qkv, plan.positions, plan.slots, m, queries, pages);
}

}  // namespace

bool append_prompt(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan,
                   std::int64_t m, const Queries& queries, std::byte* pages, cudaStream_t stream) {
  const KvLayout& layout = layer.layout;
  const bool halves = layout.fragments() && layout.types.keys == KvType::kF16 &&
                      layout.types.values == KvType::kF16;
  if (m < kFewestRows || !halves || layer.rotary % 64 != 0 ||
      reinterpret_cast<std::uintptr_t>(qkv) % sizeof(float4) != 0) {
    return false;
  }
  const auto with = [&](auto* run) { run(layer, qkv, plan, m, queries.halves, pages, stream); };
  if (layout.head_dim == 64) {
    with(layer.rotary == 0 ? run<64, 0> : run<64, 1>);
  } else {
    with(layer.rotary == 0 ? run<128, 0> : layer.rotary == 64 ? run<128, 1> : run<128, 2>);
  }
  return true;
}

}  // namespace nibble::ops::cuda
