#include "ops/cuda/dense/dense.h"

#include "core/tensor.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaDense = device::GpuTest;

TEST_F(CudaDense, EveryTypeOverRaggedShapes) {
  struct Shape {
    std::int64_t m, n, k;
  };
  const device::cuda::Stream stream;
  for (const core::DType type : {core::DType::kF32, core::DType::kF16, core::DType::kBF16}) {
    for (const Shape& s :
         {Shape{1, 64, 128}, {1, 33, 4096}, {3, 7, 50}, {8, 16, 256}, {21, 130, 264}}) {
      const core::Tensor weight = core::from_float32(normal_values(s.n * s.k, 1), {s.n, s.k}, type);
      const std::vector<float> w = core::to_float32(weight);
      const std::vector<float> x = normal_values(s.m * s.k, 2);
      const std::vector<float> bias = normal_values(s.n, 3);
      const std::vector<std::byte> bytes(weight.raw(), weight.raw() + weight.bytes());
      const auto device_w = on_device(bytes);
      const auto device_x = on_device(x);
      const auto device_bias = on_device(bias);
      const std::int64_t ldy = s.n + 3;
      const auto y = poisoned<float>(s.m * ldy);
      dense({device_w.data(), type, s.n, s.k}, device_x.as<float>(), s.m, y.as<float>(), ldy,
            device_bias.as<float>(), stream.get());
      stream.synchronize();
      const auto got = y.values<float>();
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t n = 0; n < ldy; ++n) {
          const float value = got[static_cast<std::size_t>(i * ldy + n)];
          if (n >= s.n) {
            ASSERT_TRUE(std::isnan(value)) << "written beyond the row";
            continue;
          }
          double sum = bias[static_cast<std::size_t>(n)];
          double magnitude = 1.0;
          for (std::int64_t k = 0; k < s.k; ++k) {
            const double term = static_cast<double>(w[static_cast<std::size_t>(n * s.k + k)]) *
                                x[static_cast<std::size_t>(i * s.k + k)];
            sum += term;
            magnitude += std::fabs(term);
          }
          ASSERT_NEAR(value, sum, 1e-6 * magnitude) << "token " << i << ", row " << n;
        }
      }
    }
  }
}

TEST_F(CudaDense, AProductIsScaledAndAdded) {
  const device::cuda::Stream stream;
  const std::int64_t m = 11;
  const std::int64_t n = 45;
  const std::int64_t k = 24;
  const std::vector<float> w = normal_values(n * k, 1);
  const std::vector<float> x = normal_values(m * k, 2);
  const std::vector<float> before = normal_values(m * n, 3);
  const auto device_w = on_device(w);
  const auto device_x = on_device(x);
  const auto y = on_device(before);
  dense({device_w.data(), core::DType::kF32, n, k}, device_x.as<float>(), m, y.as<float>(), n,
        nullptr, stream.get(), {-0.75f, true});
  stream.synchronize();
  const auto got = y.values<float>();
  for (std::int64_t i = 0; i < m * n; ++i) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < k; ++j) {
      sum += static_cast<double>(w[static_cast<std::size_t>(i % n * k + j)]) *
             x[static_cast<std::size_t>(i / n * k + j)];
    }
    ASSERT_NEAR(got[static_cast<std::size_t>(i)], before[static_cast<std::size_t>(i)] - 0.75 * sum,
                1e-5)
        << i;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
