#include <cmath>

#include <gtest/gtest.h>

#include "compress/recipe/apply_for_tests.h"
#include "compress/smoothquant/smoothquant_pass.h"
#include "core/json.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

// One layer of two outputs and three inputs behind a norm; the third input is always zero.
TEST(SmoothQuant, ScalesAreThoseOfTheFormula) {
  core::ThreadPool pool(1);
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  auto x = ops.matrix(2, 3);
  const float inputs[] = {8, -1, 0, -16, 0.5f, 0};
  std::copy(std::begin(inputs), std::end(inputs), x.data());
  InputStatistics statistics(StatisticsKind::kChannels, 3);
  statistics.add(x, pool);

  ops::Linear linear;
  linear.weight.n = 2;
  linear.weight.k = 3;
  ops::Norm norm;
  norm.weight = {1, 1, 1};
  norm.bias = {2, 2, 2};
  SetWork set;
  set.layers.resize(1);
  set.layers[0].layer = &linear;
  const std::vector<float> original = {0.25f, 1, 5, -0.125f, -4, 5};
  set.layers[0].target = original;
  set.layers[0].weights = set.layers[0].target;
  set.source = {&norm, nullptr, 0, {0, 1, 2}, 3};
  set.statistics = &statistics;

  apply_on_cpu(*kSmoothQuantPass.make({{"alpha", 0.75}}), set, pool);
  const double s0 = std::pow(16.0, 0.75) / std::pow(0.25, 0.25);
  const double s1 = std::pow(1.0, 0.75) / std::pow(4.0, 0.25);
  const std::vector<double> s = {s0, s1, 1.0};
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(norm.weight[j], 1 / s[j], 1e-6);
    EXPECT_NEAR(norm.bias[j], 2 / s[j], 1e-6);
    for (std::size_t row = 0; row < 2; ++row) {
      const double w = original[row * 3 + j];
      EXPECT_NEAR(set.layers[0].weights[row * 3 + j], w * s[j], 1e-5);
    }
  }
  EXPECT_NEAR(statistics.largest()[0], 16 / s0, 1e-5);
  EXPECT_THROW((void)kSmoothQuantPass.make({{"alpha", 1.5}}), core::Error);
}

}  // namespace
}  // namespace nibble::compress
