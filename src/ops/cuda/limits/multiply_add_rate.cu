#include <cuda_runtime.h>

#include "device/cuda/check.h"
#include "device/cuda/memory.h"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/limits/best_reading.h"
#include "ops/cuda/limits/multiply_add_rate.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChains = 8;  // independent sums of each warp
constexpr int kSteps = 4096;
constexpr int kReadings = 5;
constexpr double kProducts = 16.0 * 8 * 32;  // of one instruction

__global__ void multiply(int* never) {
  const auto lane = static_cast<std::uint32_t>(threadIdx.x);
  const std::uint32_t a[4] = {lane * 0x01030507u, lane ^ 0x11223344u, ~lane, lane + 0x5a5a5a5au};
  std::int32_t c[kChains][4] = {};
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      mma_s8(c[i], a, lane + i, lane * 3);
    }
  }
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kChains; ++i) {
    sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];
  }
  if (sum == 0x13579bdf) {  // as good as never: the products must stay
    *never = sum;
  }
}

}  // namespace

double measure_multiply_add_rate() {
  int multiprocessors = 0;
  device::cuda::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
                      "cudaDeviceGetAttribute");
  const int blocks = 2 * multiprocessors;
  const device::cuda::Buffer never(sizeof(int));
  const double seconds = best_reading(kReadings, [&](cudaStream_t stream) {
    multiply<<<blocks, kThreads, 0, stream>>>(never.as<int>());
    device::cuda::check_launch("multiply");
  });
  return kProducts * kSteps * kChains * blocks * (kThreads / 32) / seconds;
}

}  // namespace nibble::ops::cuda
