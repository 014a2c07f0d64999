#include <cmath>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/recipe/apply_for_tests.h"
#include "compress/recipe/pass.h"
#include "compress/recipe/recipe.h"
#include "core/json.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kOutputs = 10;
constexpr std::int64_t kTokens = 40;

struct Case {
  const char* scheme;
  std::int64_t k;
};
// Powers of two in blocks (the last one smaller: 64 + 48), a Paley size over the row (96 = 12 * 8;
// 12 is not symmetric).
constexpr Case kCases[] = {{"int8-sym-g32-h32", 96},
                           {"int8-sym-g32-hrow", 96},
                           {"int8-sym-g32-h64", 112},
                           {"int8-sym-row-a8-hrow", 128},
                           {"int8-sym-g32-a8g32-h16", 64}};

struct Turned {
  ops::cpu::CpuOps ops{{1, ops::ActivationPrecision::kFloat}};
  ops::Linear linear;
  std::vector<float> weights;
  ops::cpu::Matrix x;
  SetWork work;
  InputStatistics statistics;

  explicit Turned(const Case& test)
      : weights(core::normal_values(kOutputs * test.k, 1)),
        x(ops.matrix(kTokens, test.k)),
        statistics(StatisticsKind::kHessian, test.k) {
    linear.weight.n = kOutputs;
    linear.weight.k = test.k;
    const std::vector<float> noise = core::normal_values(kTokens * test.k, 2);
    for (std::int64_t i = 0; i < std::ssize(noise); ++i) {
      x.data()[i] = noise[static_cast<std::size_t>(i)] * (i % test.k == 7 ? 30.0f : 1.0f);
    }
    statistics.add(x, ops.pool());
    work.statistics = &statistics;
    LayerWork layer;
    layer.layer = &linear;
    layer.target = weights;
    layer.weights = weights;
    layer.scheme = formats::parse_scheme(test.scheme);
    work.layers.push_back(std::move(layer));
    apply_on_cpu(*make_pass("hadamard", core::Json::object()), work, ops.pool());
  }
};

double dot(const float* a, const float* b, std::int64_t k) {
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

TEST(HadamardPass, TurnedWeightsOnTurnedInputsGiveTheSameProducts) {
  for (const Case& test : kCases) {
    const Turned turned(test);
    const LayerWork& layer = turned.work.layers.front();
    const ops::InputTransform transform(layer.scheme, test.k);
    EXPECT_EQ(layer.target, layer.weights);
    EXPECT_NE(layer.target, turned.weights);
    std::vector<float> row(static_cast<std::size_t>(test.k));
    for (std::int64_t t = 0; t < kTokens; ++t) {
      std::copy_n(turned.x.row(t), test.k, row.begin());
      transform.apply(row);
      for (std::int64_t n = 0; n < kOutputs; ++n) {
        EXPECT_NEAR(dot(row.data(), layer.weights.data() + n * test.k, test.k),
                    dot(turned.x.row(t), turned.weights.data() + n * test.k, test.k), 1e-3)
            << test.scheme;
      }
    }
  }
}

TEST(HadamardPass, StatisticsAreThoseOfTheTurnedInputs) {
  for (const Case& test : kCases) {
    const Turned turned(test);
    const ops::InputTransform transform(turned.work.layers.front().scheme, test.k);
    ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
    ops::cpu::Matrix x = ops.matrix(kTokens, test.k);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      std::copy_n(turned.x.row(t), test.k, x.row(t));
      transform.apply({x.row(t), static_cast<std::size_t>(test.k)});
    }
    InputStatistics expected(StatisticsKind::kHessian, test.k);
    expected.add(x, ops.pool());
    const double whole = expected.mean_squares()[0] * kTokens;
    for (std::int64_t i = 0; i < test.k; ++i) {
      EXPECT_NEAR(turned.statistics.mean_squares()[static_cast<std::size_t>(i)],
                  expected.mean_squares()[static_cast<std::size_t>(i)], 1e-4 * whole);
      for (std::int64_t j = 0; j <= i; ++j) {
        const auto at = static_cast<std::size_t>(i * test.k + j);
        ASSERT_NEAR(turned.statistics.hessian()[at], expected.hessian()[at], 1e-4 * whole)
            << test.scheme << " " << i << " " << j;
      }
    }
    EXPECT_TRUE(turned.statistics.largest().empty());
  }
}

// Through the file format and the operators, packed and in float: the layer still computes x W^T.
TEST(HadamardPass, TheOperatorsTurnTheInput) {
  for (const Case& test : kCases) {
    Turned turned(test);
    apply_on_cpu(*make_pass("rtn", core::Json::object()), turned.work, turned.ops.pool());
    ops::LinearSet set;
    set.id = 0;
    turned.linear.weight = *turned.work.layers.front().packed;
    set.parts.push_back(turned.linear);
    for (const auto precision :
         {ops::ActivationPrecision::kInt8, ops::ActivationPrecision::kFloat}) {
      ops::cpu::CpuOps ops({2, precision});
      ops.prepare(set);
      auto input = ops.input(turned.x, set);
      const auto y = ops.linear(input, set);
      double error = 0;
      double total = 0;
      for (std::int64_t t = 0; t < kTokens; ++t) {
        for (std::int64_t n = 0; n < kOutputs; ++n) {
          const double expected = dot(turned.x.row(t), turned.weights.data() + n * test.k, test.k);
          error += std::pow(static_cast<double>(y.row(t)[n]) - expected, 2);
          total += expected * expected;
        }
      }
      EXPECT_LT(std::sqrt(error / total), 0.02) << test.scheme;
    }
  }
}

TEST(HadamardPass, RefusesLayersThatItDoesNotDivideOrThatDisagree) {
  EXPECT_THROW(Turned({"int4-sym-g32-h64", 70}), core::Error);  // nothing for the last 6
  EXPECT_THROW(Turned({"int4-sym-g32-hrow", 70}), core::Error);
  Turned turned({"int8-sym-g32-h32", 96});
  LayerWork other = turned.work.layers.front();
  other.scheme = formats::parse_scheme("int8-sym-g32-h16");
  turned.work.layers.push_back(std::move(other));
  EXPECT_THROW(
      apply_on_cpu(*make_pass("hadamard", core::Json::object()), turned.work, turned.ops.pool()),
      core::Error);
}

}  // namespace
}  // namespace nibble::compress
