#include "ops/cuda/sampling/argmax.h"

#include <algorithm>
#include <limits>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaArgmax = device::GpuTest;

TEST_F(CudaArgmax, FindsTheFirstOfTheLargest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const device::cuda::Stream stream;
  for (const std::int64_t columns : {1, 33, 1024, 50257, 128256}) {
    constexpr std::int64_t kRows = 6;
    std::vector<float> logits = normal_values(kRows * columns, 3);
    const auto row = [&](std::int64_t i) { return logits.begin() + i * columns; };
    *(row(1) + columns - 1) = 100.0f;  // a tie, unless there is one column
    *(row(1) + columns / 2) = 100.0f;
    std::fill_n(row(2), columns, -3.0f);
    *(row(3) + columns / 3) = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(row(4), columns, -kInfinity);
    std::fill_n(row(5), columns, -0.0f);
    *(row(5) + columns - 1) = 0.0f;  // no larger than -0
    std::vector<std::int32_t> expected;
    for (std::int64_t i = 0; i < kRows; ++i) {
      const auto largest = std::max_element(row(i), row(i) + columns);
      expected.push_back(i == 3 ? -1 : static_cast<std::int32_t>(largest - row(i)));
    }
    const auto device_logits = on_device(logits);
    const auto ids = poisoned<std::int32_t>(kRows);
    argmax(device_logits.as<float>(), kRows, columns, ids.as<std::int32_t>(), stream.get());
    stream.synchronize();
    EXPECT_EQ(ids.values<std::int32_t>(), expected) << columns;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
