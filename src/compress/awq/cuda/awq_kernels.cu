#include "compress/awq/cuda/awq_kernels.h"
#include "compress/coding/cuda/coder.cuh"
#include "device/cuda/blocks.h"
#include "device/cuda/check.h"

namespace nibble::compress::cuda {
namespace {

using device::cuda::blocks_for;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

__device__ std::int64_t warp_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
}
__device__ int lane_of_warp() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

__global__ void mirror_lower_kernel(float* matrix, std::int64_t k) {
  const std::int64_t i = blockIdx.y;
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (j < k && j > i) {
    matrix[i * k + j] = matrix[j * k + i];
  }
}

// One warp for each group of each row.
__global__ void __launch_bounds__(kThreads)
    scale_errors_kernel(const float* weights, const float* scales, CoderView view,
                        std::int64_t rows, std::int64_t k, std::int64_t group, float* errors) {
  const std::int64_t groups = (k + group - 1) / group;
  const std::int64_t at = warp_of_grid();
  if (at >= rows * groups) {
    return;
  }
  const std::int64_t row = at / groups;
  const std::int64_t begin = at % groups * group;
  const auto width = static_cast<int>(min(group, k - begin));
  const float* w = weights + row * k + begin;
  const float* s = scales + begin;
  const Coder coder(view, 0);
  const auto scaled = [&](int i) { return __fmul_rn(w[i], s[i]); };
  const GroupValues values = coder.fit(width, scaled);
  for (int i = lane_of_warp(); i < width; i += kWarp) {
    errors[row * k + begin + i] =
        __fsub_rn(w[i], __fdiv_rn(coder.rounded(scaled(i), values), s[i]));
  }
}

// One block for each row.
__global__ void __launch_bounds__(kThreads)
    row_products_kernel(const float* a, const float* b, std::int64_t k, double* sums) {
  __shared__ double partial[kWarps];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * k;
  double sum = 0;
  for (std::int64_t j = threadIdx.x; j < k; j += kThreads) {
    sum += static_cast<double>(a[first + j]) * static_cast<double>(b[first + j]);
  }
  sum = warp_sum(sum);
  if (lane_of_warp() == 0) {
    partial[threadIdx.x / kWarp] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kWarps; ++warp) {
      sum += partial[warp];
    }
    sums[blockIdx.x] = sum;
  }
}

__device__ float largest_magnitude(const float* w, int width) {
  float largest = 0;
  for (int i = lane_of_warp(); i < width; i += kWarp) {
    largest = fmaxf(largest, fabsf(w[i]));
  }
  return ops::cuda::warp_max(largest);
}

__device__ float range_of(float largest, int step) {
  return __fmul_rn(largest, __fsub_rn(1.0f, __fmul_rn(kClipStep, static_cast<float>(step))));
}

__device__ float clipped(float w, float limit) {
  return fminf(fmaxf(w, -limit), limit);
}

// One warp for each row.
__global__ void __launch_bounds__(kThreads)
    clip_errors_kernel(WeightGroup group, CoderView view, float* errors) {
  const std::int64_t row = warp_of_grid();
  if (row >= group.rows) {
    return;
  }
  const float* w = group.weights + row * group.ld;
  const auto width = static_cast<int>(group.width);
  const float largest = largest_magnitude(w, width);
  const Coder coder(view, 0);
  for (int step = 0; step < kClipSteps; ++step) {
    const float limit = range_of(largest, step);
    const auto clip = [&](int i) { return clipped(w[i], limit); };
    const GroupValues values = coder.fit(width, clip);
    float* e = errors + (row * kClipSteps + step) * group.width;
    for (int i = lane_of_warp(); i < width; i += kWarp) {
      e[i] = __fsub_rn(w[i], coder.rounded(clip(i), values));
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    clip_to_best_kernel(WeightGroup group, const float* errors, const float* products) {
  const std::int64_t row = warp_of_grid();
  if (row >= group.rows) {
    return;
  }
  float* w = group.weights + row * group.ld;
  const auto width = static_cast<int>(group.width);
  int best = 0;
  double least = 0;
  for (int step = 0; step < kClipSteps; ++step) {
    const std::int64_t first = (row * kClipSteps + step) * group.width;
    double sum = 0;
    for (int i = lane_of_warp(); i < width; i += kWarp) {
      sum += static_cast<double>(errors[first + i]) * static_cast<double>(products[first + i]);
    }
    sum = warp_sum(sum);
    if (step == 0 || sum < least) {
      best = step;
      least = sum;
    }
  }
  const float limit = range_of(largest_magnitude(w, width), best);
  __syncwarp();
  for (int i = lane_of_warp(); i < width; i += kWarp) {
    w[i] = clipped(w[i], limit);
  }
}

}  // namespace

void mirror_lower(float* matrix, std::int64_t k, cudaStream_t stream) {
  const dim3 grid(blocks_for(k, kThreads), static_cast<unsigned>(k));
  mirror_lower_kernel<<<grid, kThreads, 0, stream>>>(matrix, k);
  device::cuda::check_launch("mirror_lower_kernel");
}

void scale_rounding_errors(const float* weights, const float* scales, const CoderView& coder,
                           std::int64_t rows, std::int64_t k, std::int64_t group, float* errors,
                           cudaStream_t stream) {
  const std::int64_t groups = (k + group - 1) / group;
  scale_errors_kernel<<<blocks_for(rows * groups, kWarps), kThreads, 0, stream>>>(
      weights, scales, coder, rows, k, group, errors);
  device::cuda::check_launch("scale_errors_kernel");
}

void row_products(const float* a, const float* b, std::int64_t rows, std::int64_t k, double* sums,
                  cudaStream_t stream) {
  row_products_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(a, b, k, sums);
  device::cuda::check_launch("row_products_kernel");
}

void clip_errors(const WeightGroup& group, const CoderView& coder, float* errors,
                 cudaStream_t stream) {
  clip_errors_kernel<<<blocks_for(group.rows, kWarps), kThreads, 0, stream>>>(group, coder, errors);
  device::cuda::check_launch("clip_errors_kernel");
}

void clip_to_best(const WeightGroup& group, const float* errors, const float* products,
                  cudaStream_t stream) {
  clip_to_best_kernel<<<blocks_for(group.rows, kWarps), kThreads, 0, stream>>>(group, errors,
                                                                               products);
  device::cuda::check_launch("clip_to_best_kernel");
}

}  // namespace nibble::compress::cuda
