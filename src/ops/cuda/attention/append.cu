#include "ops/cuda/attention/append_fragments.h"
#include "ops/cuda/attention/append_prompt.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/checks.h"
#include "ops/cuda/attention/hadamard_turn.cuh"
#include "ops/cuda/attention/kv_store.cuh"
#include "ops/cuda/attention/rope_turns.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// For every layout: one warp for each head of each row; the head's vector lies in shared memory.
namespace nibble::ops::cuda {
namespace {

constexpr int kWarps = 4;

// RMSNorm of one vector.
__device__ void norm_head(float* x, int dim, const float* weight, float eps) {
  float squares = 0.0f;
  for (int i = lane_index(); i < dim; i += kWarp) {
    squares = fmaf(x[i], x[i], squares);
  }
  const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(dim) + eps);
  for (int i = lane_index(); i < dim; i += kWarp) {
    x[i] = __fmul_rn(__fmul_rn(x[i], factor), weight[i]);
  }
  __syncwarp();
}

// As cpu::rotate: pairs half of the rotary elements apart.
__device__ void rotate_head(float* x, const AttentionLayer& layer, float position) {
  const int half = static_cast<int>(layer.rotary) / 2;
  for (int i = lane_index(); i < half; i += kWarp) {
    const float2 turn = rope_turn(layer, position, i);
    const float a = x[i];
    const float b = x[i + half];
    x[i] = __fsub_rn(__fmul_rn(a, turn.x), __fmul_rn(b, turn.y));
    x[i + half] = __fadd_rn(__fmul_rn(b, turn.x), __fmul_rn(a, turn.y));
  }
  __syncwarp();
}

__device__ void subtract(float* x, const float* centre, int dim) {
  for (int i = lane_index(); i < dim; i += kWarp) {
    x[i] = __fsub_rn(x[i], centre[i]);
  }
  __syncwarp();
}

// The range of one vector, which also goes to `at`.
template <typename Range>
__device__ Range range_of(const float* x, int dim, std::uint32_t* at) {
  float smallest = x[0];
  float largest = x[0];
  bool finite = true;
  for (int i = lane_index(); i < dim; i += kWarp) {
    smallest = fminf(smallest, x[i]);
    largest = fmaxf(largest, x[i]);
    finite = finite && is_finite(x[i]);
  }
  const Range range =
      Range::of(-warp_max(-smallest), warp_max(largest), __all_sync(kAllLanes, finite));
  if (lane_index() == 0) {
    *at = range.halves;
  }
  return range;
}

__device__ void store_vector(KvType type, const float* x, const Place& place, std::byte* half,
                             std::uint32_t* range) {
  const int dim = place.dim;
  auto* bytes = reinterpret_cast<std::uint8_t*>(half);
  if (type == KvType::kF32) {
    for (int i = lane_index(); i < dim; i += kWarp) {
      reinterpret_cast<float*>(half)[place.token * dim + i] = x[i];
    }
    return;
  }
  if (type == KvType::kF16) {
    for (int i = lane_index(); i < dim; i += kWarp) {
      *reinterpret_cast<__half*>(bytes + place.half_at(i)) = __float2half_rn(x[i]);
    }
    return;
  }
  if (type == KvType::kFp8) {
    for (int i = lane_index(); i < dim; i += kWarp) {
      bytes[place.byte_at(i)] = static_cast<std::uint8_t>(e4m3_code(x[i]));
    }
    return;
  }
  if (type == KvType::kInt8) {
    const auto numbers = range_of<Int8Range>(x, dim, range);
    for (int i = lane_index(); i < dim; i += kWarp) {
      bytes[place.byte_at(i)] = static_cast<std::uint8_t>(numbers.code(x[i]));
    }
    return;
  }
  const auto numbers = range_of<Int4Range>(x, dim, range);
  for (int pair = lane_index(); pair < dim / 2; pair += kWarp) {
    const std::uint32_t low = numbers.code(x[place.first_of(pair)]);
    const std::uint32_t high = numbers.code(x[place.second_of(pair)]);
    bytes[place.nibbles_at(pair)] = static_cast<std::uint8_t>(low + (high << 4));
  }
}

__global__ void __launch_bounds__(kWarps* kWarp)
    append_kernel(AttentionLayer layer, const float* qkv, const std::int32_t* positions,
                  const std::int32_t* slots, Queries queries, std::byte* pages) {
  extern __shared__ float vectors[];  // [kWarps, 2, head_dim]
  launch_dependents();
  wait_for_predecessor();
  const int dim = static_cast<int>(layer.layout.head_dim);
  const int heads = static_cast<int>(layer.heads);
  const int kv_heads = static_cast<int>(layer.layout.kv_heads);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int head = static_cast<int>(blockIdx.y) * kWarps + warp;
  if (head >= heads + 2 * kv_heads) {
    return;
  }
  const std::int64_t row = blockIdx.x;
  float* x = vectors + warp * 2 * dim;
  const float* from = qkv + (row * (heads + 2 * kv_heads) + head) * dim;
  for (int i = lane_index(); i < dim; i += kWarp) {
    x[i] = from[i];
  }
  __syncwarp();
  const bool is_query = head < heads;
  const bool is_value = head >= heads + kv_heads;
  const float* norm = is_query ? layer.q_norm : layer.k_norm;
  if (!is_value && norm != nullptr) {
    norm_head(x, dim, norm, layer.norm_eps);
  }
  if (!is_value && layer.rotary > 0) {
    rotate_head(x, layer, static_cast<float>(positions[row]));
  }
  if (!is_query && !is_value && layer.key_centre != nullptr) {
    subtract(x, layer.key_centre + (head - heads) * dim, dim);
  }
  const KvType type = is_value ? layer.layout.types.values : layer.layout.types.keys;
  if (layer.turned && type == KvType::kInt4) {
    turn_vector<false>(x, x + dim, dim, layer.turn);
  }
  if (is_query) {
    const std::int64_t at = (row * heads + head) * dim;
    for (int i = lane_index(); i < dim; i += kWarp) {
      if (queries.halves != nullptr) {
        queries.halves[at + i].bits = static_cast<std::uint16_t>(saturated_half2(x[i], 0.0f));
      } else {
        queries.floats[at + i] = x[i];
      }
    }
    return;
  }
  const std::int32_t slot = slots[row];
  if (slot < 0) {
    return;
  }
  const KvLayout& layout = layer.layout;
  const int token = slot % static_cast<int>(kPageTokens);
  const int kv_head = head - heads - (is_value ? kv_heads : 0);
  std::byte* block = pages + (slot / kPageTokens * kv_heads + kv_head) * layout.block_bytes();
  std::byte* range = block + range_offset(layout, !is_value, token);
  store_vector(type, x, {layout.fragments(), !is_value, token, dim},
               block + (is_value ? layout.key_bytes() : 0),
               reinterpret_cast<std::uint32_t*>(range));
}

}  // namespace

void append(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan, std::int64_t m,
            const Queries& queries, std::byte* pages, cudaStream_t stream) {
  check_layer(layer);
  if (m == 0) {
    return;
  }
  if (append_prompt(layer, qkv, plan, m, queries, pages, stream) ||
      append_fragments(layer, qkv, plan, m, queries, pages, stream)) {
    return;
  }
  const std::int64_t heads = layer.heads + 2 * layer.layout.kv_heads;
  const dim3 grid(static_cast<unsigned>(m), static_cast<unsigned>((heads + kWarps - 1) / kWarps));
  const auto shared = static_cast<std::size_t>(kWarps * 2 * layer.layout.head_dim) * sizeof(float);
  launch_dependent(append_kernel, grid, dim3(kWarps * kWarp), shared, stream, layer, qkv,
                   plan.positions, plan.slots, queries, pages);
}

}  // namespace nibble::ops::cuda
