#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/checks.h"
#include "ops/cuda/attention/hadamard_turn.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// One warp for each head of each row; the head's vector lies in shared memory.
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
    float sine;
    float cosine;
    sincosf(__fmul_rn(position, layer.inverse_frequency[i]), &sine, &cosine);
    sine = __fmul_rn(sine, layer.rope_factor);
    cosine = __fmul_rn(cosine, layer.rope_factor);
    const float a = x[i];
    const float b = x[i + half];
    x[i] = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
    x[i + half] = __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine));
  }
  __syncwarp();
}

// A range in float16, and how values are counted in it: as cpu::KvCache::store.
struct KvRange {
  std::uint32_t halves;  // step, smallest
  float from;
  float inverse;
  float levels;
  bool finite;
  __device__ std::uint32_t code(float x) const {
    const float code = finite ? rintf(__fmul_rn(__fsub_rn(x, from), inverse)) : 0.0f;
    return static_cast<std::uint32_t>(fminf(fmaxf(code, 0.0f), levels));
  }
};

__device__ KvRange range_of(const float* x, int dim, float levels) {
  float smallest = x[0];
  float largest = x[0];
  bool finite = true;
  for (int i = lane_index(); i < dim; i += kWarp) {
    smallest = fminf(smallest, x[i]);
    largest = fmaxf(largest, x[i]);
    finite = finite && fabsf(x[i]) < __int_as_float(0x7f800000);
  }
  smallest = -warp_max(-smallest);
  largest = warp_max(largest);
  if (!__all_sync(kAllLanes, finite)) {
    return {0x7e007e00u, 0.0f, 0.0f, levels, false};
  }
  const __half low = __float2half_rn(smallest);
  const float from = __half2float(low);
  const __half step = __float2half_rn(__fdiv_rn(__fsub_rn(largest, from), levels));
  const float width = __half2float(step);
  return {static_cast<std::uint32_t>(__half_as_ushort(step)) |
              static_cast<std::uint32_t>(__half_as_ushort(low)) << 16,
          from, width > 0 ? __fdiv_rn(1.0f, width) : 0.0f, levels, true};
}

// Where an element of the vector of one token lies in its half of a block (kv_layout.h): the byte
// of 8 and 16 bits, and of 4 bits that of the elements i and i + 8.
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
    const int reg = row(i) / 8 + 2 * (column(i) / 8);
    return i / 16 * 512 + lane_byte(i) + 4 * reg + 2 * (column(i) % 2);
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
    if (!fragments) {
      return token * dim / 2 + pair;
    }
    const int i = first_of(pair);
    return i / 64 * 512 + lane_byte(i) + i / 16 % 4 * 4 + 2 * (column(i) % 2) +
           (keys ? row(i) / 8 : column(i) / 8);
  }
};

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
  const KvRange numbers = range_of(x, dim, type == KvType::kInt8 ? 255.0f : 15.0f);
  if (lane_index() == 0) {
    *range = numbers.halves;
  }
  if (type == KvType::kInt8) {
    for (int i = lane_index(); i < dim; i += kWarp) {
      bytes[place.byte_at(i)] = static_cast<std::uint8_t>(numbers.code(x[i]));
    }
    return;
  }
  for (int pair = lane_index(); pair < dim / 2; pair += kWarp) {
    const std::uint32_t low = numbers.code(x[place.first_of(pair)]);
    const std::uint32_t high = numbers.code(x[place.second_of(pair)]);
    bytes[place.nibbles_at(pair)] = static_cast<std::uint8_t>(low | high << 4);
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
  std::byte* range = block + layout.key_bytes() + layout.value_bytes() + 16 * (token % 8) +
                     4 * (token / 8) + (is_value ? 8 : 0);
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
  const std::int64_t heads = layer.heads + 2 * layer.layout.kv_heads;
  const dim3 grid(static_cast<unsigned>(m), static_cast<unsigned>((heads + kWarps - 1) / kWarps));
  const auto shared = static_cast<std::size_t>(kWarps * 2 * layer.layout.head_dim) * sizeof(float);
  launch_dependent(append_kernel, grid, dim3(kWarps * kWarp), shared, stream, layer, qkv,
                   plan.positions, plan.slots, queries, pages);
}

}  // namespace nibble::ops::cuda
