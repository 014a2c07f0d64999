#include "device/cuda/check.h"
#include "ops/cuda/device_code/reduce.cuh"
#include "tune/cuda/loss_kernels.h"

namespace nibble::tune::cuda {
namespace {

using ops::cuda::kWarp;

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;

// Over the block; all threads get it.
template <typename T, typename Combine>
__device__ T over_block(T value, const Combine& combine) {
  __shared__ T parts[kWarps];
  const T own = ops::cuda::over_warp(value, combine);
  __syncthreads();  // behind what read the parts before
  if (threadIdx.x % kWarp == 0) {
    parts[threadIdx.x / kWarp] = own;
  }
  __syncthreads();
  T result = parts[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) {
    result = combine(result, parts[i]);
  }
  return result;
}

template <typename T>
__device__ T block_sum(T value) {
  return over_block(value, [](T a, T b) { return a + b; });
}

// The largest of a row, and the sum of exp(x - largest).
struct Softmax {
  float largest;
  float sum;

  __device__ Softmax(const float* x, std::int64_t n) {
    float own = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
      own = fmaxf(own, x[i]);
    }
    largest = over_block(own, [](float a, float b) { return fmaxf(a, b); });
    float total = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
      total += expf(x[i] - largest);
    }
    sum = block_sum(total);
  }
  __device__ float probability(float x) const { return expf(x - largest) / sum; }
  __device__ double logarithm_of_sum() const {
    return static_cast<double>(largest) + log(static_cast<double>(sum));
  }
};

// One block for each row.
__global__ void __launch_bounds__(kThreads)
    logit_loss_kernel(LogitShares shares, float* logits, const float* teacher,
                      const std::int32_t* labels, float scale, std::int64_t n, double* losses) {
  float* q = logits + blockIdx.x * n;
  const std::int32_t label = labels[blockIdx.x];
  if (label < 0) {
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
      q[i] = 0.0f;
    }
    if (threadIdx.x == 0) {
      losses[blockIdx.x] = 0;
    }
    return;
  }
  const Softmax own(q, n);
  const double logsum = own.logarithm_of_sum();
  double loss = static_cast<double>(shares.labels) * (logsum - static_cast<double>(q[label]));
  if (shares.logits > 0) {
    const float* p = teacher + blockIdx.x * n;
    const Softmax theirs(p, n);
    const double gap = logsum - theirs.logarithm_of_sum();
    double divergence = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
      const float share = theirs.probability(p[i]);
      divergence += static_cast<double>(share) *
                    (static_cast<double>(p[i]) - static_cast<double>(q[i]) + gap);
      q[i] = scale * ((shares.labels + shares.logits) * own.probability(q[i]) -
                      shares.logits * share - (i == label ? shares.labels : 0.0f));
    }
    loss += static_cast<double>(shares.logits) * block_sum(divergence);
  } else {
    __syncthreads();  // all have read q[label]
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
      q[i] = scale * shares.labels * (own.probability(q[i]) - (i == label ? 1.0f : 0.0f));
    }
  }
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = loss;
  }
}

}  // namespace

void logit_loss(const LogitShares& shares, float* logits, const float* teacher,
                const std::int32_t* labels, float scale, std::int64_t m, std::int64_t vocabulary,
                double* losses, cudaStream_t stream) {
  logit_loss_kernel<<<static_cast<unsigned>(m), kThreads, 0, stream>>>(
      shares, logits, teacher, labels, scale, vocabulary, losses);
  device::cuda::check_launch("logit_loss_kernel");
}

}  // namespace nibble::tune::cuda
