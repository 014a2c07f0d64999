#include "ops/cpu/dense/dense_linear.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random_values_for_tests.h"
#include "formats/format.h"

namespace nibble::ops::cpu {
namespace {

void check(const formats::PackedWeight& weight, std::int64_t m, core::ThreadPool& pool) {
  const std::int64_t ldx = weight.k + 3;
  const std::int64_t ldy = weight.n + 2;
  const std::vector<float> x = core::normal_values(m * ldx, 11);
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
      const auto weight =
          formats::dense_weight(core::from_float32(core::normal_values(n * k, 5), {n, k}, type));
      for (const std::int64_t m : {1, 2, 5, 16, 17, 40}) {
        check(weight, m, pool);
      }
    }
  }
}

TEST(DenseLinear, DecodesPackedWeights) {
  core::ThreadPool pool(2);
  const std::vector<float> w = core::normal_values(100 * 128, 9);
  for (const char* scheme :
       {"int4-asym-g32", "int3-sym-g64", "int8-sym-row", "lut4-nf4-g64", "mxfp4", "nvfp4"}) {
    const auto weight = formats::round_to_nearest(w, 100, 128, formats::parse_scheme(scheme));
    check(weight, 3, pool);
    check(weight, 20, pool);
  }
}

// Every row of any number of rows has the bits that it has alone.
TEST(DenseLinear, RowsDoNotDependOnOneAnother) {
  core::ThreadPool one(1);
  core::ThreadPool three(3);
  constexpr std::int64_t kRows = 70;
  for (const auto& [n, k] : {std::pair{111, 96}, {20, 1089}}) {
    const std::vector<float> w = core::normal_values(n * k, 5);
    std::vector<formats::PackedWeight> weights;
    for (const core::DType type : {core::DType::kF32, core::DType::kF16, core::DType::kBF16}) {
      weights.push_back(formats::dense_weight(core::from_float32(w, {n, k}, type)));
    }
    if (k % 32 == 0) {
      weights.push_back(formats::round_to_nearest(w, n, k, formats::parse_scheme("int4-asym-g32")));
    }
    const std::int64_t ldx = k + 5;
    const std::vector<float> x = core::normal_values(kRows * ldx, 4);
    for (const formats::PackedWeight& weight : weights) {
      std::vector<float> alone(static_cast<std::size_t>(kRows * n));
      for (std::int64_t i = 0; i < kRows; ++i) {
        dense_linear(x.data() + i * ldx, 1, ldx, weight, alone.data() + i * n, n, one);
      }
      for (std::int64_t m = 1; m <= kRows; ++m) {
        std::vector<float> y(static_cast<std::size_t>(m * n));
        dense_linear(x.data(), m, ldx, weight, y.data(), n, three);
        ASSERT_TRUE(std::equal(y.begin(), y.end(), alone.begin()))
            << m << " rows of " << n << " x " << k;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
