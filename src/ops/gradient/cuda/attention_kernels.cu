#include "device/cuda/blocks.h"
#include "device/cuda/check.h"
#include "ops/cuda/device_code/float_types.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/gradient/cuda/attention_kernels.h"

namespace nibble::ops::gradient::cuda {
namespace {

using device::cuda::blocks_for;
using ops::cuda::as_float;
using ops::cuda::kWarp;
using ops::cuda::store;
using ops::cuda::warp_max;
using ops::cuda::warp_sum;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// The warp's number among all of the grid.
__device__ std::int64_t warp_number() {
  return static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
}

__device__ int lane_number() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

// A query or key head of a token.
struct Head {
  std::int64_t token;
  std::int64_t at;    // of its first value in a matrix like qkv
  const float* norm;  // [head_dim] or null
};

__device__ Head head_of(const Heads& h, std::int64_t number) {
  const std::int64_t turned = h.heads + h.kv_heads;
  const std::int64_t head = number % turned;
  const std::int64_t token = number / turned;
  return {token, (token * (turned + h.kv_heads) + head) * h.head_dim,
          head < h.heads ? h.q_norm : h.k_norm};
}

// Turns a head by `direction` times its angles.
__device__ void rotate(const Heads& h, std::int32_t position, float direction, float* x) {
  const std::int64_t half = h.rotary / 2;
  for (std::int64_t i = lane_number(); i < half; i += kWarp) {
    const float angle = static_cast<float>(position) * h.inverse_frequency[i];
    const float cosine = cosf(angle) * h.rope_factor;
    const float sine = direction * sinf(angle) * h.rope_factor;
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * cosine - b * sine;
    x[i + half] = b * cosine + a * sine;
  }
}

// 1 / root mean square of a head.
__device__ float inverse_size(const Heads& h, const float* x) {
  float sum = 0;
  for (std::int64_t i = lane_number(); i < h.head_dim; i += kWarp) {
    sum += x[i] * x[i];
  }
  return 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(h.head_dim) + h.norm_eps);
}

// One warp for each query or key head of each token.
__global__ void __launch_bounds__(kThreads)
    turn_heads_kernel(Heads h, const std::int32_t* positions, std::int64_t m, float* qkv) {
  const std::int64_t number = warp_number();
  if (number >= m * (h.heads + h.kv_heads)) {
    return;
  }
  const Head head = head_of(h, number);
  float* x = qkv + head.at;
  if (head.norm != nullptr) {
    const float inverse = inverse_size(h, x);
    for (std::int64_t i = lane_number(); i < h.head_dim; i += kWarp) {
      x[i] = x[i] * inverse * head.norm[i];
    }
    __syncwarp();
  }
  rotate(h, positions[head.token], 1.0f, x);
}

// One warp for each head of each token, values among them. With u = x / size and v = w g, the
// gradient through the norm is (v - u mean(u v)) / size.
__global__ void __launch_bounds__(kThreads)
    turn_heads_back_kernel(Heads h, const std::int32_t* positions, std::int64_t m, const float* qkv,
                           float* gradient, float* dqkv) {
  const std::int64_t number = warp_number();
  if (number >= m * (h.heads + h.kv_heads)) {
    return;
  }
  const Head head = head_of(h, number);
  const float* x = qkv + head.at;
  float* g = gradient + head.at;
  float* dx = dqkv + head.at;
  rotate(h, positions[head.token], -1.0f, g);
  __syncwarp();
  if (head.norm == nullptr) {
    for (std::int64_t i = lane_number(); i < h.head_dim; i += kWarp) {
      dx[i] += g[i];
    }
    return;
  }
  const float inverse = inverse_size(h, x);
  float sum = 0;
  for (std::int64_t i = lane_number(); i < h.head_dim; i += kWarp) {
    sum += head.norm[i] * g[i] * x[i] * inverse;
  }
  const float mean = warp_sum(sum) / static_cast<float>(h.head_dim);
  for (std::int64_t i = lane_number(); i < h.head_dim; i += kWarp) {
    dx[i] += (head.norm[i] * g[i] - x[i] * inverse * mean) * inverse;
  }
}

// dqkv += gradient at the values, which were not turned.
__global__ void __launch_bounds__(kThreads)
    add_values_kernel(Heads h, std::int64_t m, const float* gradient, float* dqkv) {
  const std::int64_t number = warp_number();
  if (number >= m * h.kv_heads) {
    return;
  }
  const std::int64_t head = h.heads + h.kv_heads + number % h.kv_heads;
  const std::int64_t at = (number / h.kv_heads * (h.heads + 2 * h.kv_heads) + head) * h.head_dim;
  for (std::int64_t i = lane_number(); i < h.head_dim; i += kWarp) {
    dqkv[at + i] += gradient[at + i];
  }
}

// Keys [begin, end) that a row of scores sees.
struct Seen {
  std::int64_t begin;
  std::int64_t end;
};

__device__ Seen seen_by(const Scores& s, std::int64_t row) {
  if (s.bidirectional) {
    return {0, s.keys};
  }
  const std::int64_t position = s.first + row % s.rows;
  const bool is_far = s.window > 0 && position >= s.window;
  return {is_far ? position - s.window + 1 : 0, position + 1};
}

__device__ float capped(const Scores& s, float score) {
  const float scaled = score * s.scale;
  return s.softcap > 0.0f ? s.softcap * tanhf(scaled / s.softcap) : scaled;
}

// One warp for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    masked_softmax_kernel(Scores s, const float* scores, T* probabilities) {
  const std::int64_t row = warp_number();
  if (row >= s.batch * s.rows) {
    return;
  }
  const float* x = scores + row * s.keys;
  T* y = probabilities + row * s.keys;
  const Seen seen = seen_by(s, row);
  float largest = -INFINITY;
  for (std::int64_t j = seen.begin + lane_number(); j < seen.end; j += kWarp) {
    largest = fmaxf(largest, capped(s, x[j]));
  }
  largest = warp_max(largest);
  float sum = 0;
  for (std::int64_t j = seen.begin + lane_number(); j < seen.end; j += kWarp) {
    sum += expf(capped(s, x[j]) - largest);
  }
  const float share = 1.0f / warp_sum(sum);
  for (std::int64_t j = lane_number(); j < s.keys; j += kWarp) {
    const bool is_seen = j >= seen.begin && j < seen.end;
    store(y + j, is_seen ? expf(capped(s, x[j]) - largest) * share : 0.0f);
  }
}

// One warp for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    masked_softmax_back_kernel(Scores s, const float* scores, const float* gradient,
                               T* probabilities) {
  const std::int64_t row = warp_number();
  if (row >= s.batch * s.rows) {
    return;
  }
  const float* x = scores + row * s.keys;
  const float* g = gradient + row * s.keys;
  T* p = probabilities + row * s.keys;
  const Seen seen = seen_by(s, row);
  float sum = 0;
  for (std::int64_t j = seen.begin + lane_number(); j < seen.end; j += kWarp) {
    sum += as_float(p[j]) * g[j];
  }
  sum = warp_sum(sum);
  for (std::int64_t j = seen.begin + lane_number(); j < seen.end; j += kWarp) {
    float slope = as_float(p[j]) * (g[j] - sum);
    if (s.softcap > 0.0f) {
      const float share = tanhf(x[j] * s.scale / s.softcap);
      slope *= 1.0f - share * share;
    }
    store(p + j, slope);
  }
}

}  // namespace

void turn_heads(const Heads& heads, const std::int32_t* positions, std::int64_t m, float* qkv,
                cudaStream_t stream) {
  const std::int64_t warps = m * (heads.heads + heads.kv_heads);
  turn_heads_kernel<<<blocks_for(warps, kWarps), kThreads, 0, stream>>>(heads, positions, m, qkv);
  device::cuda::check_launch("turn_heads_kernel");
}

void turn_heads_back(const Heads& heads, const std::int32_t* positions, std::int64_t m,
                     const float* qkv, float* gradient, float* dqkv, cudaStream_t stream) {
  const std::int64_t warps = m * (heads.heads + heads.kv_heads);
  turn_heads_back_kernel<<<blocks_for(warps, kWarps), kThreads, 0, stream>>>(heads, positions, m,
                                                                             qkv, gradient, dqkv);
  device::cuda::check_launch("turn_heads_back_kernel");
  add_values_kernel<<<blocks_for(m * heads.kv_heads, kWarps), kThreads, 0, stream>>>(
      heads, m, gradient, dqkv);
  device::cuda::check_launch("add_values_kernel");
}

void masked_softmax(const Scores& shape, const float* scores, void* probabilities, core::DType type,
                    cudaStream_t stream) {
  const unsigned blocks = blocks_for(shape.batch * shape.rows, kWarps);
  if (type == core::DType::kBF16) {
    masked_softmax_kernel<<<blocks, kThreads, 0, stream>>>(
        shape, scores, static_cast<__nv_bfloat16*>(probabilities));
  } else {
    masked_softmax_kernel<<<blocks, kThreads, 0, stream>>>(shape, scores,
                                                           static_cast<float*>(probabilities));
  }
  device::cuda::check_launch("masked_softmax_kernel");
}

void masked_softmax_back(const Scores& shape, const float* scores, const float* gradient,
                         void* probabilities, core::DType type, cudaStream_t stream) {
  const unsigned blocks = blocks_for(shape.batch * shape.rows, kWarps);
  if (type == core::DType::kBF16) {
    masked_softmax_back_kernel<<<blocks, kThreads, 0, stream>>>(
        shape, scores, gradient, static_cast<__nv_bfloat16*>(probabilities));
  } else {
    masked_softmax_back_kernel<<<blocks, kThreads, 0, stream>>>(shape, scores, gradient,
                                                                static_cast<float*>(probabilities));
  }
  device::cuda::check_launch("masked_softmax_back_kernel");
}

}  // namespace nibble::ops::gradient::cuda
