#include "device/cuda/blocks.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/elementwise/half_values.cuh"
#include "ops/cuda/elementwise/vectors.h"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

template <typename Values>
__global__ void __launch_bounds__(kThreads)
    scale_kernel(Values x, float factor, std::int64_t count) {
  launch_dependents();
  wait_for_predecessor();
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    x.write(i, x.read(i) * factor);
  }
}

}  // namespace

void scale(const MutableMatrixView& x, float factor, std::int64_t count, cudaStream_t stream) {
  if (count == 0) {
    return;
  }
  const unsigned blocks = device::cuda::blocks_for(count, kThreads, kMostBlocks);
  with_values(x, [&]<typename Values>(const Values& values) {
    launch_dependent(scale_kernel<Values>, dim3(blocks), dim3(kThreads), 0, stream, values, factor,
                     count);
  });
}

}  // namespace nibble::ops::cuda
