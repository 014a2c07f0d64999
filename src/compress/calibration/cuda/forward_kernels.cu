#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "compress/calibration/cuda/forward_kernels.h"
#include "device/cuda/check.h"
#include "ops/cuda/device_code/reduce.cuh"

namespace nibble::compress::cuda {
namespace {

using ops::cuda::kWarp;
using ops::cuda::warp_max;
using ops::cuda::warp_sum;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

unsigned blocks_for(std::int64_t count, std::int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

__device__ float value_of(float x) {
  return x;
}
__device__ float value_of(__half x) {
  return __half2float(x);
}
__device__ float value_of(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <typename T>
__global__ void to_float_kernel(const T* source, std::int64_t count, float* target) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    target[i] = value_of(source[i]);
  }
}

template <typename T>
void run_to_float(const void* source, std::int64_t count, float* target, cudaStream_t stream) {
  constexpr std::int64_t kMostBlocks = 65536;
  const auto blocks = static_cast<unsigned>(
      count < kMostBlocks * kThreads ? (count + kThreads - 1) / kThreads : kMostBlocks);
  to_float_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const T*>(source), count, target);
}

// One warp for each query or key head of each token.
__global__ void __launch_bounds__(kThreads)
    prepare_heads_kernel(Heads h, const std::int32_t* positions, std::int64_t m, float* qkv) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  const std::int64_t turned = h.heads + h.kv_heads;
  if (at >= m * turned) {
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t token = at / turned;
  const std::int64_t head = at % turned;
  float* x = qkv + (token * (turned + h.kv_heads) + head) * h.head_dim;
  const float* norm = head < h.heads ? h.q_norm : h.k_norm;
  if (norm != nullptr) {
    float sum = 0;
    for (std::int64_t i = lane; i < h.head_dim; i += kWarp) {
      sum += x[i] * x[i];
    }
    const float scale = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(h.head_dim) + h.norm_eps);
    for (std::int64_t i = lane; i < h.head_dim; i += kWarp) {
      x[i] = x[i] * scale * norm[i];
    }
    __syncwarp();
  }
  const std::int64_t half = h.rotary / 2;
  for (std::int64_t i = lane; i < half; i += kWarp) {
    const float angle = static_cast<float>(positions[token]) * h.inverse_frequency[i];
    const float cosine = cosf(angle) * h.rope_factor;
    const float sine = sinf(angle) * h.rope_factor;
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * cosine - b * sine;
    x[i + half] = b * cosine + a * sine;
  }
}

// One warp for each row.
__global__ void __launch_bounds__(kThreads)
    masked_softmax_kernel(float* scores, std::int64_t batch, std::int64_t rows, std::int64_t keys,
                          std::int64_t first, std::int64_t window, float scale) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (at >= batch * rows) {
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float* x = scores + at * keys;
  const std::int64_t position = first + at % rows;
  const std::int64_t begin = window > 0 && position >= window ? position - window + 1 : 0;
  float largest = -INFINITY;
  for (std::int64_t j = begin + lane; j <= position; j += kWarp) {
    largest = fmaxf(largest, x[j]);
  }
  largest = warp_max(largest);
  float sum = 0;
  for (std::int64_t j = begin + lane; j <= position; j += kWarp) {
    const float e = expf((x[j] - largest) * scale);
    x[j] = e;
    sum += e;
  }
  const float share = 1.0f / warp_sum(sum);
  __syncwarp();
  for (std::int64_t j = lane; j < keys; j += kWarp) {
    x[j] = j >= begin && j <= position ? x[j] * share : 0.0f;
  }
}

}  // namespace

void to_float(const void* source, core::DType type, std::int64_t count, float* target,
              cudaStream_t stream) {
  switch (type) {
    case core::DType::kF16:
      run_to_float<__half>(source, count, target, stream);
      break;
    case core::DType::kBF16:
      run_to_float<__nv_bfloat16>(source, count, target, stream);
      break;
    default:
      run_to_float<float>(source, count, target, stream);
  }
  device::cuda::check_launch("to_float_kernel");
}

void prepare_heads(const Heads& heads, const std::int32_t* positions, std::int64_t m, float* qkv,
                   cudaStream_t stream) {
  const std::int64_t warps = m * (heads.heads + heads.kv_heads);
  prepare_heads_kernel<<<blocks_for(warps, kWarps), kThreads, 0, stream>>>(heads, positions, m,
                                                                           qkv);
  device::cuda::check_launch("prepare_heads_kernel");
}

void masked_softmax(float* scores, std::int64_t batch, std::int64_t rows, std::int64_t keys,
                    std::int64_t first, std::int64_t window, float scale, cudaStream_t stream) {
  masked_softmax_kernel<<<blocks_for(batch * rows, kWarps), kThreads, 0, stream>>>(
      scores, batch, rows, keys, first, window, scale);
  device::cuda::check_launch("masked_softmax_kernel");
}

}  // namespace nibble::compress::cuda
