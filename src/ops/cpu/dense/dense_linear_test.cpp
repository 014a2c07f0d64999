#include "ops/cpu/dense/dense_linear.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "formats/format.h"

namespace nibble::ops::cpu {
namespace {

std::vector<float> normal(std::int64_t count, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = random.normal();
  }
  return values;
}

void check(const formats::PackedWeight& weight, std::int64_t m, core::ThreadPool& pool) {
  const std::int64_t ldx = weight.k + 3;
  const std::int64_t ldy = weight.n + 2;
  const std::vector<float> x = normal(m * ldx, 11);
  std::vector<float> y(static_cast<std::size_t>(m * ldy), std::nanf(""));
  std::vector<double> expected(y.size());
  dense_linear(x.data(), m, ldx, weight, y.data(), ldy, pool);
  dense_linear_reference(x.data(), m, ldx, weight, expected.data(), ldy);
  const double bound = 2e-6 * static_cast<double>(weight.k);  // |x w| of N(0, 1) numbers
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < weight.n; ++j) {
      const auto at = static_cast<std::size_t>(i * ldy + j);
      ASSERT_NEAR(y[at], expected[at], bound) << "m " << m << " row " << i << " column " << j;
    }
    EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(i * ldy + weight.n)]))
        << "wrote past its columns";
  }
}

TEST(DenseLinear, MatchesTheReferenceForEveryTypeAndShape) {
  core::ThreadPool pool(2);
  for (const auto& [n, k] : {std::pair{1, 1}, {5, 7}, {97, 64}, {200, 33}}) {
    for (const core::DType type : {core::DType::kF32, core::DType::kF16, core::DType::kBF16}) {
      const auto weight = formats::dense_weight(core::from_float32(normal(n * k, 5), {n, k}, type));
      for (const std::int64_t m : {1, 2, 5, 16, 17, 40}) {
        check(weight, m, pool);
      }
    }
  }
}

TEST(DenseLinear, DecodesPackedWeights) {
  core::ThreadPool pool(2);
  const std::vector<float> w = normal(100 * 128, 9);
  for (const char* scheme :
       {"int4-asym-g32", "int3-sym-g64", "int8-sym-row", "lut4-nf4-g64", "mxfp4", "nvfp4"}) {
    const auto weight = formats::round_to_nearest(w, 100, 128, formats::parse_scheme(scheme));
    check(weight, 3, pool);
    check(weight, 20, pool);
  }
}

TEST(DenseLinear, FewRowsDoNotDependOnTheBatchOrTheThreads) {
  core::ThreadPool one(1);
  core::ThreadPool three(3);
  const auto weight =
      formats::dense_weight(core::from_float32(normal(150 * 96, 5), {150, 96}, core::DType::kBF16));
  const std::vector<float> x = normal(kFewRows * 96, 4);
  std::vector<float> all(static_cast<std::size_t>(kFewRows * 150));
  dense_linear(x.data(), kFewRows, 96, weight, all.data(), 150, three);
  for (std::int64_t i = 0; i < kFewRows; ++i) {
    std::vector<float> alone(150);
    dense_linear(x.data() + i * 96, 1, 96, weight, alone.data(), 150, one);
    for (std::size_t j = 0; j < alone.size(); ++j) {
      ASSERT_EQ(alone[j], all[static_cast<std::size_t>(i) * 150 + j]);
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
