#include "ops/cuda/elementwise/vectors.h"

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/elementwise.h"

namespace nibble::ops::cuda {
namespace {

using CudaVectors = device::GpuTest;

constexpr std::int64_t kCounts[] = {1, 255, 257, 100'000, 2'000'001};

TEST_F(CudaVectors, ScaleEachNumber) {
  const device::cuda::Stream stream;
  for (const std::int64_t count : kCounts) {
    const std::vector<float> x = normal_values(count, 1);
    std::vector<float> scaled;
    for (const float value : x) {
      scaled.push_back(value * 0.7f);
    }
    const auto y = on_device(x);
    scale(y.as<float>(), 0.7f, count, stream.get());
    stream.synchronize();
    EXPECT_EQ(y.values<float>(), scaled) << count;
  }
}

// In one kernel, the bits of both operators.
TEST_F(CudaVectors, AddAndNorm) {
  const device::cuda::Stream stream;
  constexpr std::int64_t kRows = 5;
  for (const std::int64_t columns : {1, 36, 768, 1024, 4100, 20000}) {
    const auto x = on_device(normal_values(kRows * columns, 1));
    const auto sum = on_device(normal_values(kRows * columns, 1));
    const auto delta = on_device(normal_values(kRows * columns, 2));
    const auto weight = on_device(normal_values(columns, 3));
    const auto bias = on_device(normal_values(columns, 4));
    const NormWeights norm{NormKind::kLayer, weight.as<float>(), bias.as<float>(), 1e-5f};
    const auto expected = poisoned<float>(kRows * columns);
    const auto made = poisoned<float>(kRows * columns);
    add(sum.as<float>(), delta.as<float>(), kRows * columns, stream.get());
    norm_matrix(sum.as<float>(), norm, expected.as<float>(), kRows, columns, stream.get());
    post_norm_matrix(x.as<float>(), delta.as<float>(), norm, made.as<float>(), kRows, columns,
                     stream.get());
    stream.synchronize();
    EXPECT_EQ(made.values<float>(), expected.values<float>()) << columns;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
