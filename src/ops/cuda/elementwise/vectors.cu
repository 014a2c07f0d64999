#include <algorithm>

#include <cuda_fp16.h>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/elementwise/vectors.h"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

// y[i] = operation(x[i]); y may be x.
template <typename T, typename Operation>
__global__ void __launch_bounds__(kThreads)
    map_kernel(const T* x, float* y, std::int64_t count, Operation operation) {
  launch_dependents();
  wait_for_predecessor();
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    y[i] = operation(x[i]);
  }
}

struct Scale {
  float factor;
  __device__ float operator()(float value) const { return value * factor; }
};

struct Widen {
  __device__ float operator()(__half value) const { return __half2float(value); }
};

template <typename T, typename Operation>
void map(const T* x, float* y, std::int64_t count, const Operation& operation,
         cudaStream_t stream) {
  if (count == 0) {
    return;
  }
  const std::int64_t blocks = std::min(kMostBlocks, (count + kThreads - 1) / kThreads);
  launch_dependent(map_kernel<T, Operation>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0,
                   stream, x, y, count, operation);
}

}  // namespace

void scale(float* x, float factor, std::int64_t count, cudaStream_t stream) {
  map<float>(x, x, count, Scale{factor}, stream);
}

void widen(const core::Fp16* x, float* y, std::int64_t count, cudaStream_t stream) {
  map(reinterpret_cast<const __half*>(x), y, count, Widen{}, stream);
}

}  // namespace nibble::ops::cuda
