#include <algorithm>

#include <cuda_runtime.h>

#include "device/cuda/check.h"
#include "device/cuda/memory.h"
#include "ops/cuda/limits/best_reading.h"
#include "ops/cuda/limits/read_bandwidth.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kLoads = 4;  // in flight in each thread
constexpr std::size_t kBytes = std::size_t{1} << 31;
constexpr int kReadings = 6;

__global__ void read_all(const uint4* data, std::size_t count, uint4* never) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  uint4 all = make_uint4(0, 0, 0, 0);
  for (; i + (kLoads - 1) * stride < count; i += kLoads * stride) {
    uint4 v[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      v[j] = __ldcs(data + i + j * stride);
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      all.x ^= v[j].x;
      all.y ^= v[j].y;
      all.z ^= v[j].z;
      all.w ^= v[j].w;
    }
  }
  if ((all.x ^ all.y ^ all.z ^ all.w) == 0x9e3779b9u) {  // as good as never: the loads must stay
    *never = all;
  }
}

}  // namespace

double measure_read_bandwidth() {
  std::size_t free = 0;
  std::size_t total = 0;
  device::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const std::size_t bytes = std::min(kBytes, free / 2) / 4096 * 4096;
  const device::cuda::Buffer data(static_cast<std::int64_t>(bytes));
  device::cuda::check(cudaMemset(data.data(), 0x5a, bytes), "cudaMemset");
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  int multiprocessors = 0;
  device::cuda::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
                      "cudaDeviceGetAttribute");
  const double seconds = best_reading(kReadings, [&](cudaStream_t stream) {
    read_all<<<multiprocessors * 4, kThreads, 0, stream>>>(data.as<uint4>(), bytes / sizeof(uint4),
                                                           data.as<uint4>());
    device::cuda::check_launch("read_all");
  });
  return static_cast<double>(bytes) / seconds;
}

}  // namespace nibble::ops::cuda
