#include "device/cuda/blocks.h"
#include "device/cuda/check.h"
#include "ops/cuda/device_code/float_types.cuh"
#include "ops/cuda/device_code/grid.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/gradient/activation_point.h"
#include "ops/gradient/cuda/row_kernels.h"

namespace nibble::ops::gradient::cuda {
namespace {

using device::cuda::blocks_for;
using ops::cuda::as_float;
using ops::cuda::kWarp;
using ops::cuda::over_grid;
using ops::cuda::store;
using ops::cuda::warp_sum;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;

// Over the block; all threads get it.
__device__ float block_sum(float value) {
  __shared__ float sums[kWarps];
  const float own = warp_sum(value);
  __syncthreads();  // behind what read the sums before
  if (threadIdx.x % kWarp == 0) {
    sums[threadIdx.x / kWarp] = own;
  }
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    sum += sums[i];
  }
  return sum;
}

__global__ void add_scaled_kernel(float* y, float factor, const float* x, std::int64_t count) {
  over_grid(count, [&](std::int64_t i) { y[i] += factor * x[i]; });
}

template <typename From, typename To>
__global__ void convert_kernel(const From* source, std::int64_t count, To* target) {
  over_grid(count, [&](std::int64_t i) { store(target + i, as_float(source[i])); });
}

template <typename From>
void convert_from(const void* source, std::int64_t count, void* target, core::DType to,
                  cudaStream_t stream) {
  const auto* from = static_cast<const From*>(source);
  if (to == core::DType::kBF16) {
    convert_kernel<<<blocks_for(count, kThreads, kMostBlocks), kThreads, 0, stream>>>(
        from, count, static_cast<__nv_bfloat16*>(target));
  } else {
    convert_kernel<<<blocks_for(count, kThreads, kMostBlocks), kThreads, 0, stream>>>(
        from, count, static_cast<float*>(target));
  }
}

// One block for each row. y_i = w_i u_i with u = (x - mean) / deviation (RMSNorm: mean 0), so
// dx = (v - mean(v) - u mean(v u)) / deviation with v = w dy (RMSNorm: without mean(v)).
__global__ void __launch_bounds__(kThreads)
    add_norm_gradient_kernel(ops::cuda::NormWeights norm, const float* x, const float* dy,
                             float* dx, std::int64_t columns) {
  x += blockIdx.x * columns;
  dy += blockIdx.x * columns;
  dx += blockIdx.x * columns;
  const auto count = static_cast<float>(columns);
  const bool centred = norm.kind == NormKind::kLayer;
  float sum = 0;
  for (std::int64_t i = threadIdx.x; centred && i < columns; i += kThreads) {
    sum += x[i];
  }
  const float mean = centred ? block_sum(sum) / count : 0.0f;
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
    squares += (x[i] - mean) * (x[i] - mean);
  }
  const float inverse = 1.0f / sqrtf(block_sum(squares) / count + norm.eps);
  float v = 0;
  float vu = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
    const float own = norm.weight[i] * dy[i];
    v += own;
    vu += own * (x[i] - mean) * inverse;
  }
  const float mean_v = centred ? block_sum(v) / count : 0.0f;
  const float mean_vu = block_sum(vu) / count;
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
    const float u = (x[i] - mean) * inverse;
    dx[i] += (norm.weight[i] * dy[i] - mean_v - u * mean_vu) * inverse;
  }
}

__global__ void add_activation_gradient_kernel(MlpActivation activation, const float* x,
                                               const float* dy, float* dx, std::int64_t count) {
  over_grid(count,
            [&](std::int64_t i) { dx[i] += activation_point(activation, x[i]).slope * dy[i]; });
}

__global__ void add_gated_gradient_kernel(MlpActivation activation, const float* gate_up,
                                          const float* dy, float* dgate_up, std::int64_t m,
                                          std::int64_t columns) {
  over_grid(m * columns, [&](std::int64_t i) {
    const std::int64_t gate = i / columns * 2 * columns + i % columns;
    const std::int64_t up = gate + columns;
    const ActivationPoint point = activation_point(activation, gate_up[gate]);
    dgate_up[gate] += point.slope * gate_up[up] * dy[i];
    dgate_up[up] += point.value * dy[i];
  });
}

__global__ void add_gathered_kernel(const float* x, const std::int32_t* rows, const float* weights,
                                    float* y, std::int64_t m, std::int64_t columns) {
  over_grid(m * columns, [&](std::int64_t i) {
    const std::int64_t row = i / columns;
    y[i] += weights[row] * x[rows[row] * columns + i % columns];
  });
}

}  // namespace

void add_scaled(float* y, float factor, const float* x, std::int64_t count, cudaStream_t stream) {
  add_scaled_kernel<<<blocks_for(count, kThreads, kMostBlocks), kThreads, 0, stream>>>(y, factor, x,
                                                                                       count);
  device::cuda::check_launch("add_scaled_kernel");
}

void convert(const void* source, core::DType from, std::int64_t count, void* target, core::DType to,
             cudaStream_t stream) {
  switch (from) {
    case core::DType::kF16:
      convert_from<__half>(source, count, target, to, stream);
      break;
    case core::DType::kBF16:
      convert_from<__nv_bfloat16>(source, count, target, to, stream);
      break;
    default:
      convert_from<float>(source, count, target, to, stream);
  }
  device::cuda::check_launch("convert_kernel");
}

void add_norm_gradient(const ops::cuda::NormWeights& norm, const float* x, const float* dy,
                       float* dx, std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  add_norm_gradient_kernel<<<static_cast<unsigned>(m), kThreads, 0, stream>>>(norm, x, dy, dx,
                                                                              columns);
  device::cuda::check_launch("add_norm_gradient_kernel");
}

void add_activation_gradient(MlpActivation activation, const float* x, const float* dy, float* dx,
                             std::int64_t count, cudaStream_t stream) {
  add_activation_gradient_kernel<<<blocks_for(count, kThreads, kMostBlocks), kThreads, 0, stream>>>(
      activation, x, dy, dx, count);
  device::cuda::check_launch("add_activation_gradient_kernel");
}

void add_gated_gradient(MlpActivation activation, const float* gate_up, const float* dy,
                        float* dgate_up, std::int64_t m, std::int64_t columns,
                        cudaStream_t stream) {
  add_gated_gradient_kernel<<<blocks_for(m * columns, kThreads, kMostBlocks), kThreads, 0,
                              stream>>>(activation, gate_up, dy, dgate_up, m, columns);
  device::cuda::check_launch("add_gated_gradient_kernel");
}

void add_gathered(const float* x, const std::int32_t* rows, const float* weights, float* y,
                  std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  add_gathered_kernel<<<blocks_for(m * columns, kThreads, kMostBlocks), kThreads, 0, stream>>>(
      x, rows, weights, y, m, columns);
  device::cuda::check_launch("add_gathered_kernel");
}

}  // namespace nibble::ops::gradient::cuda
