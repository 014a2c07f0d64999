#include "ops/cuda/dense/lt_products.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/graph.h"
#include "ops/cuda/dense/dense_trial_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using core::DType;
using device::cuda::Buffer;
using device::cuda::LtProduct;

class LtProductsTest : public device::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && !device::cuda::BlasLt::absence().empty()) {
      GTEST_SKIP() << device::cuda::BlasLt::absence();
    }
  }

  static LtProduct product_of(const DenseTrial& trial, std::int64_t m, float* y, bool has_bias,
                              bool adds) {
    const DenseView weight = trial.weight();
    const bool is_float = weight.type == DType::kF32;
    LtProduct product;
    product.type = weight.type;
    product.n = weight.n;
    product.k = weight.k;
    product.m = m;
    product.w = weight.data;
    product.x = is_float ? trial.matrix() : trial.values();
    product.ldx = is_float ? weight.k : padded_columns(weight.k);
    product.y = y;
    product.ldy = trial.ldy();
    product.bias = has_bias ? trial.bias() : nullptr;
    product.adds = adds;
    return product;
  }
};

TEST_F(LtProductsTest, EveryTypeOverRaggedShapes) {
  struct Shape {
    std::int64_t n, k;
  };
  LtProducts products;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const Shape& shape : {Shape{1, 8}, {33, 72}, {130, 264}, {257, 1000}, {96, 4096}}) {
      DenseTrial trial(type, shape.n, shape.k, 512);
      for (const std::int64_t m : {1, 9, 33, 70, 512}) {
        for (const bool has_bias : {false, true}) {
          for (const bool adds : {false, true}) {
            const Buffer y = trial.target(m, adds);
            products.multiply(product_of(trial, m, y.as<float>(), has_bias, adds), trial.stream());
            trial.expect(y, m, has_bias, adds,
                         std::string(core::name_of(type)) + ", " + std::to_string(shape.n) + " x " +
                             std::to_string(shape.k) + ", " + std::to_string(m) + " tokens");
            if (HasFatalFailure()) {
              return;
            }
          }
        }
      }
    }
  }
}

// Sums in float32, rounded once.
TEST_F(LtProductsTest, WritesBFloat16) {
  LtProducts products;
  const DenseTrial trial(DType::kBF16, 264, 1000, 70);
  const Buffer floats = trial.target(70, false);
  products.multiply(product_of(trial, 70, floats.as<float>(), false, false), trial.stream());
  const Buffer halves = on_device(std::vector<std::uint16_t>(
      static_cast<std::size_t>(70 * trial.ldy()), std::uint16_t{0x7fc0}));
  LtProduct product = product_of(trial, 70, nullptr, false, false);
  product.y = halves.data();
  product.type_of_y = DType::kBF16;
  products.multiply(product, trial.stream());
  device::cuda::check(cudaStreamSynchronize(trial.stream()), "cudaStreamSynchronize");
  const std::vector<float> expected = floats.values<float>();
  const std::vector<std::uint16_t> y = halves.values<std::uint16_t>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float value = std::bit_cast<float>(std::uint32_t{y[i]} << 16);
    if (std::isnan(expected[i])) {  // between the rows
      ASSERT_TRUE(std::isnan(value)) << i;
      continue;
    }
    // Half a unit in the last place, and what another order of additions changes.
    ASSERT_NEAR(value, expected[i], std::abs(expected[i]) / 256 + 1e-3f) << i;
  }
}

// The same in float16, with a bias of that type.
TEST_F(LtProductsTest, WritesFloat16) {
  LtProducts products;
  const DenseTrial trial(DType::kF16, 264, 1000, 70);
  const Buffer floats = trial.target(70, false);
  products.multiply(product_of(trial, 70, floats.as<float>(), true, false), trial.stream());
  std::vector<core::Fp16> bias(264);
  device::cuda::check(cudaStreamSynchronize(trial.stream()), "cudaStreamSynchronize");
  const std::vector<float> expected = floats.values<float>();
  std::vector<float> bias_of_floats(bias.size());
  device::cuda::check(cudaMemcpy(bias_of_floats.data(), trial.bias(), bias.size() * sizeof(float),
                                 cudaMemcpyDeviceToHost),
                      "cudaMemcpy");
  std::transform(bias_of_floats.begin(), bias_of_floats.end(), bias.begin(), core::to_fp16);
  const Buffer halves_of_bias = on_device(bias);
  const Buffer halves = poisoned<core::Fp16>(70 * trial.ldy());
  LtProduct product = product_of(trial, 70, nullptr, false, false);
  product.y = halves.data();
  product.type_of_y = DType::kF16;
  product.bias = halves_of_bias.data();
  products.multiply(product, trial.stream());
  device::cuda::check(cudaStreamSynchronize(trial.stream()), "cudaStreamSynchronize");
  const std::vector<core::Fp16> y = halves.values<core::Fp16>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (std::isnan(expected[i])) {  // between the rows
      ASSERT_EQ(y[i].bits, 0xffff) << i;
      continue;
    }
    // The sum and its bias may be rounded one after the other: half a unit of each.
    const float parts = 2.0f * std::abs(expected[i]) +
                        std::abs(bias_of_floats[i % static_cast<std::size_t>(trial.ldy())]);
    ASSERT_NEAR(core::to_float(y[i]), expected[i], parts / 2048 + 2e-3f) << i;
  }
}

// Of as many tokens as have one algorithm.
TEST_F(LtProductsTest, ATokenHasTheSameBitsAmongAnyOthers) {
  LtProducts products;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    const DenseTrial trial(type, 512, 2048, 128);
    std::vector<float> all;
    for (const std::int64_t m : {128, 127, 96, 70, 65}) {
      const Buffer y = trial.target(m, false);
      products.multiply(product_of(trial, m, y.as<float>(), true, false), trial.stream());
      device::cuda::check(cudaStreamSynchronize(trial.stream()), "cudaStreamSynchronize");
      const std::vector<float> mine = y.values<float>();
      all = all.empty() ? mine : all;
      ASSERT_EQ(0, std::memcmp(mine.data(), all.data(), mine.size() * sizeof(float)))
          << core::name_of(type) << ", " << m << " tokens";
    }
  }
}

TEST_F(LtProductsTest, CanBeRecorded) {
  LtProducts products;
  const DenseTrial trial(DType::kBF16, 512, 2048, 64);
  const Buffer expected = trial.target(64, false);
  products.multiply(product_of(trial, 64, expected.as<float>(), true, false), trial.stream());
  const Buffer y = trial.target(64, false);
  const auto graph = device::cuda::Graph::record(trial.stream(), [&] {
    products.multiply(product_of(trial, 64, y.as<float>(), true, false), trial.stream());
  });
  device::cuda::check(cudaStreamSynchronize(trial.stream()), "cudaStreamSynchronize");
  EXPECT_TRUE(std::isnan(y.values<float>().front()));
  graph.launch(trial.stream());
  device::cuda::check(cudaStreamSynchronize(trial.stream()), "cudaStreamSynchronize");
  EXPECT_EQ(y.values<std::uint32_t>(), expected.values<std::uint32_t>());
}

}  // namespace
}  // namespace nibble::ops::cuda
