#include "ops/cuda/dense/lt_products.h"

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
