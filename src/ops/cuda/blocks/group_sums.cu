#include "ops/cuda/blocks/group_sums.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 256;

/// A thread has a value, and as many lanes as a group has values a sum.
__global__ void __launch_bounds__(kThreads)
    group_sums_kernel(const float* values, std::int64_t count, int group, float* sums) {
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  float sum = at < count ? values[at] : 0.0f;
  for (int distance = group / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  }
  if (at < count && at % group == 0) {
    sums[at / group] = sum;
  }
}

}  // namespace

void group_sums(const float* values, std::int64_t count, std::int64_t group, float* sums,
                cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  launch_dependent(group_sums_kernel, dim3(blocks), dim3(kThreads), 0, stream, values, count,
                   static_cast<int>(group), sums);
}

}  // namespace nibble::ops::cuda
