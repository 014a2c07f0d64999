#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/sampling/argmax.h"
#include "ops/cuda/sampling/logit_key.cuh"

/// A block for each row.
namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kAhead = 8;  // values that a thread asks for at once

__device__ unsigned long long warp_largest(unsigned long long key) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    key = max(key, __shfl_xor_sync(kAllLanes, key, distance));
  }
  return key;
}

__global__ void __launch_bounds__(kThreads)
    argmax_kernel(const float* logits, std::int64_t columns, std::int32_t* ids) {
  __shared__ unsigned long long keys[kThreads / kWarp];
  launch_dependents();
  wait_for_predecessor();
  const float* row = logits + blockIdx.x * columns;
  unsigned long long key = 0;
  for (std::int64_t first = threadIdx.x; first < columns; first += kThreads * kAhead) {
    float values[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const std::int64_t column = first + i * kThreads;
      values[i] = column < columns ? row[column] : -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const std::int64_t column = first + i * kThreads;
      if (column < columns) {
        key = max(key, key_of(values[i], static_cast<std::uint32_t>(column)));
      }
    }
  }
  key = warp_largest(key);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) {
    keys[threadIdx.x / kWarp] = key;
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    key = warp_largest(keys[lane]);
    if (lane == 0) {
      ids[blockIdx.x] =
          key == ~0ull ? -1
                       : static_cast<std::int32_t>(0xfffffffeu - static_cast<std::uint32_t>(key));
    }
  }
}

}  // namespace

void argmax(const float* logits, std::int64_t m, std::int64_t columns, std::int32_t* ids,
            cudaStream_t stream) {
  if (m > 0) {
    launch_dependent(argmax_kernel, dim3(static_cast<unsigned>(m)), dim3(kThreads), 0, stream,
                     logits, columns, ids);
  }
}

}  // namespace nibble::ops::cuda
