#include <vector>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_code/dependent_launch.cuh"

namespace nibble::ops::cuda {
namespace {

using DependentLaunch = device::GpuTest;

// Each element depends on one that another block of the kernel before has written.
__global__ void rotate(const int* x, int* y, int n) {
  launch_dependents();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  wait_for_predecessor();
  if (i < n) {
    y[i] = x[(i + n / 2 + 1) % n] + 1;
  }
}

TEST_F(DependentLaunch, KernelsSeeWhatTheirPredecessorsWrote) {
  constexpr int kValues = 100'003;
  constexpr int kSteps = 40;  // an even number: the result is in the first buffer
  std::vector<int> start(kValues);
  for (int i = 0; i < kValues; ++i) {
    start[static_cast<std::size_t>(i)] = i;
  }
  device::cuda::Stream stream;
  const auto a = device::cuda::Buffer::of<int>(start);
  const device::cuda::Buffer b(a.bytes());
  const auto graph = device::cuda::Graph::record(stream.get(), [&] {
    for (int step = 0; step < kSteps; ++step) {
      launch_dependent(rotate, dim3((kValues + 255) / 256), dim3(256), 0, stream.get(),
                       static_cast<const int*>((step % 2 == 0 ? a : b).as<int>()),
                       (step % 2 == 0 ? b : a).as<int>(), kValues);
    }
  });
  graph.launch(stream.get());
  stream.synchronize();
  const auto result = a.values<int>();
  for (int i = 0; i < kValues; ++i) {
    const std::int64_t from = i + static_cast<std::int64_t>(kSteps) * (kValues / 2 + 1);
    ASSERT_EQ(result[static_cast<std::size_t>(i)], from % kValues + kSteps) << i;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
