#include <algorithm>

#include "compress/coding/cuda/coder.cuh"
#include "compress/gptq/cuda/gptq_kernels.h"
#include "device/cuda/blocks.h"
#include "device/cuda/check.h"

namespace nibble::compress::cuda {
namespace {

using device::cuda::blocks_for;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kLaneInputs = kGptqBlock / kWarp;  // inputs of a block that a lane holds
constexpr int kSharedBytes = kGptqBlock * kGptqBlock * static_cast<int>(sizeof(float));

__global__ void order_hessian_kernel(const float* lower, const std::int32_t* order,
                                     const std::uint8_t* dead, double added, std::int64_t k,
                                     double* ordered) {
  const std::int64_t j = blockIdx.y;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i > j) {
    return;
  }
  const std::int64_t a = order[i];
  const std::int64_t b = order[j];
  double value = lower[a >= b ? a * k + b : b * k + a];
  if (i == j) {
    value = (dead[a] != 0 ? 1.0 : value) + added;
  }
  ordered[j * k + i] = value;
}

__global__ void extract_upper_kernel(const double* factor, std::int64_t k, float* upper) {
  const std::int64_t i = blockIdx.y;
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (j < k) {
    upper[i * k + j] = j < i ? 0.0f : static_cast<float>(factor[j * k + i]);
  }
}

__global__ void order_weights_kernel(const float* weights, const std::int32_t* order,
                                     const std::uint8_t* dead, std::int64_t k, float* ordered) {
  const std::int64_t row = blockIdx.y;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < k) {
    const std::int32_t input = order[i];
    ordered[row * k + i] = dead[input] != 0 ? 0.0f : weights[row * k + input];
  }
}

// The block's part of the factor, 0 beyond `count`.
__device__ void load_upper(const GptqSweep& s, std::int64_t begin, int count, float* upper) {
  for (int at = static_cast<int>(threadIdx.x); at < kGptqBlock * kGptqBlock; at += kThreads) {
    const int i = at / kGptqBlock;
    const int j = at % kGptqBlock;
    upper[at] = i < count && j < count ? s.upper[(begin + i) * s.k + begin + j] : 0.0f;
  }
}

// One warp for each row; lane l holds inputs l, l + 32, ... of the block.
__global__ void __launch_bounds__(kThreads)
    gptq_block_kernel(GptqSweep s, std::int64_t begin, int count) {
  extern __shared__ float upper[];  // [kGptqBlock, kGptqBlock]
  load_upper(s, begin, count, upper);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (row >= s.n) {
    return;
  }
  const Coder head_coder(s.coder, row);
  const Coder tail_coder(s.tail_coder, row);
  float w[kLaneInputs] = {};
  float errors[kLaneInputs] = {};
  GroupValues group[kLaneInputs];
  std::int32_t input[kLaneInputs] = {};
  bool keeps[kLaneInputs] = {};
  bool tail[kLaneInputs] = {};
#pragma unroll
  for (int c = 0; c < kLaneInputs; ++c) {
    const int j = lane + kWarp * c;
    if (j < count) {
      w[c] = s.weights[row * s.k + begin + j];
      input[c] = s.order[begin + j];
      tail[c] = input[c] >= s.head;
      group[c] = s.groups[row * s.row_groups + (tail[c] ? s.row_groups - 1 : input[c] / s.group)];
      keeps[c] = s.kept == nullptr || s.kept[row * s.k + input[c]] != 0;
    }
  }
#pragma unroll
  for (int c = 0; c < kLaneInputs; ++c) {
    for (int owner = 0; owner < kWarp && kWarp * c + owner < count; ++owner) {
      const float* u = upper + (kWarp * c + owner) * kGptqBlock;
      float error = 0;
      if (lane == owner) {
        const float kept = keeps[c] ? w[c] : 0.0f;
        const Coder& coder = tail[c] ? tail_coder : head_coder;
        s.codes[row * s.k + input[c]] = coder.encode(kept, group[c]);
        error = __fdiv_rn(__fsub_rn(w[c], coder.rounded(kept, group[c])), u[kWarp * c + owner]);
        errors[c] = error;
      }
      error = __shfl_sync(kAllLanes, error, owner);
#pragma unroll
      for (int d = c; d < kLaneInputs; ++d) {
        const int j = lane + kWarp * d;
        if (d > c || lane > owner) {
          w[d] = __fsub_rn(w[d], __fmul_rn(error, u[j]));
        }
      }
    }
  }
#pragma unroll
  for (int c = 0; c < kLaneInputs; ++c) {
    s.error[row * kGptqBlock + lane + kWarp * c] = errors[c];
  }
}

}  // namespace

void order_hessian(const float* lower, const std::int32_t* order, const std::uint8_t* dead,
                   double added, std::int64_t k, double* ordered, cudaStream_t stream) {
  const dim3 grid(blocks_for(k, kThreads), static_cast<unsigned>(k));
  order_hessian_kernel<<<grid, kThreads, 0, stream>>>(lower, order, dead, added, k, ordered);
  device::cuda::check_launch("order_hessian_kernel");
}

void extract_upper(const double* factor, std::int64_t k, float* upper, cudaStream_t stream) {
  const dim3 grid(blocks_for(k, kThreads), static_cast<unsigned>(k));
  extract_upper_kernel<<<grid, kThreads, 0, stream>>>(factor, k, upper);
  device::cuda::check_launch("extract_upper_kernel");
}

void order_weights(const float* weights, const std::int32_t* order, const std::uint8_t* dead,
                   std::int64_t n, std::int64_t k, float* ordered, cudaStream_t stream) {
  constexpr std::int64_t kMost = 65535;  // rows of one grid
  for (std::int64_t row = 0; row < n; row += kMost) {
    const dim3 grid(blocks_for(k, kThreads), static_cast<unsigned>(std::min(kMost, n - row)));
    order_weights_kernel<<<grid, kThreads, 0, stream>>>(weights + row * k, order, dead, k,
                                                        ordered + row * k);
  }
  device::cuda::check_launch("order_weights_kernel");
}

void gptq_block(const GptqSweep& sweep, std::int64_t begin, std::int64_t end, cudaStream_t stream) {
  device::cuda::check(
      cudaFuncSetAttribute(gptq_block_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kSharedBytes),
      "cudaFuncSetAttribute");
  gptq_block_kernel<<<blocks_for(sweep.n, kWarps), kThreads, kSharedBytes, stream>>>(
      sweep, begin, static_cast<int>(end - begin));
  device::cuda::check_launch("gptq_block_kernel");
}

}  // namespace nibble::compress::cuda
