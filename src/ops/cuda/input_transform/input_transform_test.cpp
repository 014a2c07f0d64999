#include "ops/cuda/input_transform/input_transform.h"

#include <cstring>

#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/input_transform/device_transform.h"
#include "ops/input_transform.h"

namespace nibble::ops::cuda {
namespace {

using CudaInputTransform = device::GpuTest;

TEST_F(CudaInputTransform, GivesTheBitsOfTheCpu) {
  const device::cuda::Stream stream;
  for (const char* scheme : {"int4-asym-g128-h128", "int4-sym-g128-h2", "int4-sym-g128-a4-hrow",
                             "int4-sym-g128-a4g128-tail128", "int4-sym-g128-a4g128-h128-tail128",
                             "int4-sym-g128-a4-hrow-tail32", "int4-sym-g128-h12"}) {
    for (const std::int64_t k : {std::int64_t{160}, std::int64_t{416}, std::int64_t{1152}}) {
      const auto weight = cpu::testing::random_weight(scheme, 1, k, 3);
      const auto transform = DeviceTransform::of(weight, "layer");
      ASSERT_NE(transform, nullptr);
      const std::int64_t m = 3;
      std::vector<float> x = normal_values(m * k, 4);
      const auto device_x = on_device(x);
      const auto y = poisoned<float>(m * k);
      transform_inputs(transform->view(), device_x.as<float>(), y.as<float>(), m, stream.get());
      stream.synchronize();
      const InputTransform expected(weight);
      for (std::int64_t i = 0; i < m; ++i) {
        expected.apply(
            std::span(x).subspan(static_cast<std::size_t>(i * k), static_cast<std::size_t>(k)));
      }
      const auto got = y.values<float>();
      std::int64_t wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        wrong += std::memcmp(&got[i], &x[i], sizeof(float)) != 0;
      }
      EXPECT_EQ(wrong, 0) << scheme << ", " << k << " inputs";
    }
  }
}

TEST_F(CudaInputTransform, ARowLargerThanTheMemoryOfABlockIsRefused) {
  formats::PackedWeight weight;
  weight.scheme = formats::parse_scheme("int4-sym-g128-hrow");
  weight.n = 1;
  weight.k = 65536;
  EXPECT_THROW(DeviceTransform::of(weight, "layer"), core::Error);
}

}  // namespace
}  // namespace nibble::ops::cuda
