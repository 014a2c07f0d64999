#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/float16.h"
#include "core/random.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "formats/format.h"
#include "ops/gradient/cuda/cuda_operators.h"
#include "ops/gradient/gradient_ops.h"

/// A GPU's operators beside those of a CPU, in each precision.
namespace nibble::ops::gradient {

using cuda::CudaGradientOps;
using cuda::CudaOperators;
using DeviceMatrix = CudaOperators::Matrix;
using device::cuda::Buffer;

inline const std::filesystem::path kFamilies =
    std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

// What rounding of the factors of products leaves, of the largest value.
inline double tolerance_of(ProductPrecision precision) {
  switch (precision) {
    case ProductPrecision::kFloat32:
      return 3e-5;
    case ProductPrecision::kTf32:
      return 4e-3;
    case ProductPrecision::kBfloat16:
      return 3e-2;
  }
  return 0;
}

class CudaGradient : public device::GpuTest, public testing::WithParamInterface<ProductPrecision> {
 protected:
  void SetUp() override {
    device::GpuTest::SetUp();
    if (!IsSkipped()) {
      poison();
      stream_.emplace();
      gpu_.emplace(stream_->get(), GetParam(), ops_);
    }
  }

  cpu::Matrix random(std::int64_t rows, std::int64_t columns) {
    cpu::Matrix x = ops_.matrix(rows, columns);
    std::generate_n(x.data(), rows * columns, [&] { return random_.normal(); });
    return x;
  }
  std::vector<float> random(std::int64_t count) {
    const cpu::Matrix x = random(1, count);
    return {x.values().begin(), x.values().end()};
  }
  DeviceMatrix on_gpu(const cpu::Matrix& x) {
    return gpu_->uploaded(x.values(), x.rows(), x.columns());
  }
  cpu::Matrix back(const DeviceMatrix& x) {
    cpu::Matrix y = ops_.matrix(x.rows(), x.columns());
    gpu_->download(x, std::span(y.data(), static_cast<std::size_t>(x.count())));
    return y;
  }

  // Of the largest value; `factor`: times the tolerance of one product.
  static void expect_near(std::span<const float> got, std::span<const float> expected,
                          const std::string& what, double factor = 1.0) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    double largest = 1e-30;
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
      const double distance =
          std::fabs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
      worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
    }
    EXPECT_LT(worst / largest, factor * tolerance_of(GetParam())) << what;
  }
  void expect_near(const DeviceMatrix& got, const cpu::Matrix& expected, const std::string& what,
                   double factor = 1.0) {
    ASSERT_EQ(got.rows(), expected.rows()) << what;
    expect_near(back(got).values(), expected.values(), what, factor);
  }

  ops::Linear layer(std::int64_t n, std::int64_t k, bool has_bias) {
    core::Tensor values = core::Tensor::zeros(core::DType::kF32, {n, k});
    for (float& value : values.mutable_data<float>()) {
      value = random_.normal();
    }
    return {"layer", formats::dense_weight(std::move(values)),
            has_bias ? random(n) : std::vector<float>()};
  }

  static std::vector<core::Bf16> to_bf16(const std::vector<float>& values) {
    std::vector<core::Bf16> result(values.size());
    std::transform(values.begin(), values.end(), result.begin(),
                   [](float value) { return core::to_bf16(value); });
    return result;
  }
  static void host_vector_add(float* y, const std::vector<float>& x) {
    std::transform(x.begin(), x.end(), y, y, std::plus<>());
  }

  struct Shape {
    std::int64_t rows;
    std::int64_t columns;
  };
  static constexpr Shape kShapes[] = {{1, 1}, {3, 17}, {7, 256}, {2, 4099}, {130, 64}};

  core::Random random_{11};
  cpu::CpuOps ops_{{2, ActivationPrecision::kFloat}};
  CpuOperators host_{ops_};
  std::optional<device::cuda::Stream> stream_;
  std::optional<CudaOperators> gpu_;

 private:
  // What a kernel does not write shall be seen: memory that is allocated from here on holds NaN.
  static void poison() {
    const Buffer memory(std::int64_t{1} << 29);
    device::cuda::check(cudaMemset(memory.data(), 0xff, std::size_t{1} << 29), "cudaMemset");
  }
};

inline std::string name_of(const testing::TestParamInfo<ProductPrecision>& parameter) {
  return std::string(to_string(parameter.param));
}

inline const auto kPrecisions = testing::Values(ProductPrecision::kFloat32, ProductPrecision::kTf32,
                                                ProductPrecision::kBfloat16);

}  // namespace nibble::ops::gradient
