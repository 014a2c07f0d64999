#include <algorithm>
#include <cmath>

#include "ops/cuda/attention/hadamard_turn.cuh"
#include "ops/cuda/attention/head_output.cuh"
#include "ops/cuda/attention/plain.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/e4m3.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

namespace nibble::ops::cuda::plain {
namespace {

constexpr int kWarps = 4;
constexpr int kEach = static_cast<int>(kMaxHeadDim) / kWarp;

struct Arguments {
  AttentionLayer layer;
  const float* queries;
  const std::byte* pages;
  DevicePlan plan;
  HeadSink sink;
  float scale;
};

// Keys or values of one token of one head.
struct Vector {
  KvType type;
  const std::byte* data;
  float step;
  float smallest;

  __device__ float operator[](int i) const {
    switch (type) {
      case KvType::kF32:
        return reinterpret_cast<const float*>(data)[i];
      case KvType::kF16:
        return __half2float(reinterpret_cast<const __half*>(data)[i]);
      case KvType::kInt8:
        return code(static_cast<std::uint32_t>(data[i]));
      case KvType::kFp8:
        return float2_of(halves_of_e4m3(static_cast<std::uint32_t>(data[i]))).x;
      case KvType::kInt4:
        return code(static_cast<std::uint32_t>(data[i / 2]) >> (4 * (i % 2)) & 15u);
    }
    return 0.0f;
  }
  __device__ float code(std::uint32_t bits) const {
    return fmaf(step, static_cast<float>(bits), smallest);
  }
};

__device__ Vector vector_of(const KvLayout& layout, const std::byte* block, bool keys, int token) {
  const KvType type = keys ? layout.types.keys : layout.types.values;
  const std::byte* data = block + (keys ? 0 : layout.key_bytes());
  Vector vector{type, data + token * layout.head_dim * bits_of(type) / 8, 0.0f, 0.0f};
  if (is_integer(type)) {
    const std::byte* range = block + layout.key_bytes() + layout.value_bytes() + 16 * (token % 8) +
                             4 * (token / 8) + (keys ? 0 : 8);
    const float2 numbers = float2_of(*reinterpret_cast<const std::uint32_t*>(range));
    vector.step = numbers.x;
    vector.smallest = numbers.y;
  }
  return vector;
}

struct Found {
  float out[kWarps + 1][kMaxHeadDim];
  float largest[kWarps];
  float sum[kWarps];
};

// One row and head against positions [begin, end).
__device__ void attend_row(const Arguments& a, std::int64_t row, int head, int begin, int end,
                           Found& found) {
  const KvLayout& layout = a.layer.layout;
  const int dim = static_cast<int>(layout.head_dim);
  const int lane = lane_index();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t kv_head = head / (a.layer.heads / layout.kv_heads);
  const std::int32_t* table = a.plan.table + a.plan.starts[row];
  const float* q = a.queries + (row * a.layer.heads + head) * dim;
  float out[kEach] = {};
  float largest = -INFINITY;
  float sum = 0.0f;
  for (int position = begin + warp; position < end; position += kWarps) {
    const std::int64_t page = table[position / 16];
    const std::byte* block = a.pages + (page * layout.kv_heads + kv_head) * layout.block_bytes();
    const Vector key = vector_of(layout, block, true, position % 16);
    const Vector value = vector_of(layout, block, false, position % 16);
    float product = 0.0f;
    for (int i = lane; i < dim; i += kWarp) {
      product = fmaf(q[i], key[i], product);
    }
    const float score = warp_sum(product) * a.scale;
    const float now = fmaxf(largest, score);
    const float change = largest == -INFINITY ? 0.0f : expf(largest - now);
    const float weight = expf(score - now);
    largest = now;
    sum = fmaf(sum, change, weight);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = lane + e * kWarp;
      if (i < dim) {
        out[e] = fmaf(out[e], change, weight * value[i]);
      }
    }
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int i = lane + e * kWarp;
    if (i < dim) {
      found.out[warp][i] = out[e];
    }
  }
  found.largest[warp] = largest;
  found.sum[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    float common = -INFINITY;
    for (int from = 0; from < kWarps; ++from) {
      common = fmaxf(common, found.largest[from]);
    }
    float total = 0.0f;
    for (int from = 0; from < kWarps; ++from) {
      const float share =
          found.largest[from] == -INFINITY ? 0.0f : expf(found.largest[from] - common);
      total = fmaf(share, found.sum[from], total);
      for (int i = lane; i < dim; i += kWarp) {
        const float before = from == 0 ? 0.0f : found.out[kWarps][i];
        found.out[kWarps][i] = fmaf(share, found.out[from][i], before);
      }
    }
    __syncwarp();
    if (a.layer.turned && layout.types.values == KvType::kInt4) {
      turn_vector<true>(found.out[kWarps], found.out[0], dim, a.layer.turn);
    }
    for (int i = lane; i < dim; i += kWarp) {
      a.sink.store(row, head * dim + i, found.out[kWarps][i] / total);
    }
    if (head == static_cast<int>(a.layer.heads) - 1) {
      a.sink.pad(row);
    }
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kWarps* kWarp) decode_kernel(Arguments a) {
  __shared__ Found found;
  launch_dependents();
  wait_for_predecessor();
  const int heads = static_cast<int>(a.layer.heads);
  const int units = a.plan.counts[0] * heads;
  for (int unit = static_cast<int>(blockIdx.x); unit < units; unit += static_cast<int>(gridDim.x)) {
    const DecodeItem item = a.plan.decode[unit / heads];
    if (item.split == 0) {
      attend_row(a, item.row, unit % heads, item.begin, a.plan.positions[item.row] + 1, found);
    }
  }
}

__global__ void __launch_bounds__(kWarps* kWarp) prefill_kernel(Arguments a) {
  __shared__ Found found;
  launch_dependents();
  wait_for_predecessor();
  const int kv_heads = static_cast<int>(a.layer.layout.kv_heads);
  const int group = static_cast<int>(a.layer.heads) / kv_heads;
  const int per_item = kv_heads * static_cast<int>(kPrefillRows);
  const std::int64_t units = static_cast<std::int64_t>(a.plan.counts[1]) * per_item;
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const PrefillItem item = a.plan.prefill[unit / per_item];
    const int kv_head = static_cast<int>(unit % per_item / kPrefillRows);
    const int at = item.first + static_cast<int>(unit % kPrefillRows);
    if (at < item.rows * group) {
      const int position = item.position + at / group;
      const int begin = item.window > 0 ? max(0, position + 1 - item.window) : 0;
      attend_row(a, item.row + at / group, kv_head * group + at % group, begin, position + 1,
                 found);
    }
  }
}

Arguments arguments_of(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                       const DevicePlan& plan, const AttentionOutput& output) {
  return {layer,
          queries.floats,
          pages,
          plan,
          head_sink(output, layer.heads * layer.layout.head_dim),
          1.0f / std::sqrt(static_cast<float>(layer.layout.head_dim))};
}

dim3 grid_of(std::int64_t units) {
  return {static_cast<unsigned>(std::clamp<std::int64_t>(units, 1, 2048))};
}

}  // namespace

void attend_decode(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                   const DevicePlan& plan, const AttentionOutput& output, cudaStream_t stream) {
  launch_dependent(decode_kernel, grid_of(plan.max_items * layer.heads), dim3(kWarps * kWarp), 0,
                   stream, arguments_of(layer, queries, pages, plan, output));
}

void attend_prefill(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                    const DevicePlan& plan, const AttentionOutput& output, cudaStream_t stream) {
  launch_dependent(prefill_kernel, grid_of(plan.max_items * layer.layout.kv_heads * kPrefillRows),
                   dim3(kWarps * kWarp), 0, stream,
                   arguments_of(layer, queries, pages, plan, output));
}

}  // namespace nibble::ops::cuda::plain
