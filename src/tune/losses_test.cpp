// Losses against differences, and against values by hand.

#include "tune/losses.h"

#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::tune {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;

class Losses : public testing::Test {
 protected:
  Matrix random(std::int64_t rows, std::int64_t columns) {
    Matrix x = ops_.matrix(rows, columns);
    std::generate_n(x.data(), rows * columns, [&] { return 2 * random_.normal(); });
    return x;
  }

  core::Random random_{3};
  CpuOps ops_{{2, ops::ActivationPrecision::kFloat}};
};

TEST_F(Losses, OfLogitsHaveTheSlopesOfTheirDifferences) {
  const std::vector<std::int32_t> labels = {2, 0, -1, 6};
  const Matrix logits = random(4, 7);
  const Matrix teacher = random(4, 7);
  for (const LogitLoss loss : {LogitLoss{1.0, 0.0}, LogitLoss{0.0, 1.0}, LogitLoss{0.3, 0.7}}) {
    const auto loss_at = [&](std::int64_t i, float step) {
      Matrix x = ops_.copy(logits);
      x.data()[i] += step;
      Matrix wanted = ops_.copy(teacher);
      return logit_loss(loss, x, wanted, labels, 0.25, ops_.pool());
    };
    Matrix gradient = ops_.copy(logits);
    Matrix wanted = ops_.copy(teacher);
    (void)logit_loss(loss, gradient, wanted, labels, 0.25, ops_.pool());
    for (std::int64_t i = 0; i < 28; ++i) {
      constexpr float kStep = 1.0f / 128;
      const double slope = (loss_at(i, kStep) - loss_at(i, -kStep)) / (2.0 * double{kStep});
      EXPECT_NEAR(gradient.data()[i], slope, 2e-5) << i;
    }
    EXPECT_EQ(gradient.row(2)[3], 0.0f);
  }
}

TEST_F(Losses, HaveTheValuesOfTheirDefinitions) {
  Matrix logits = ops_.zeros(1, 4);
  Matrix teacher = ops_.zeros(1, 4);
  const std::vector<std::int32_t> labels = {1};
  EXPECT_NEAR(logit_loss({1.0, 0.0}, logits, teacher, labels, 1.0, ops_.pool()), std::log(4.0),
              1e-6);
  EXPECT_NEAR(logits.row(0)[1], -0.75f, 1e-6);
  logits = ops_.zeros(1, 2);
  teacher = ops_.zeros(1, 2);
  teacher.row(0)[0] = std::log(3.0f);  // probabilities 3/4 and 1/4
  EXPECT_NEAR(logit_loss({0.0, 1.0}, logits, teacher, labels, 1.0, ops_.pool()),
              0.75 * std::log(0.75 / 0.5) + 0.25 * std::log(0.25 / 0.5), 1e-6);
  // The same logits: nothing to learn.
  logits = random(3, 50);
  teacher = ops_.copy(logits);
  const std::vector<std::int32_t> three = {0, 1, 2};
  EXPECT_NEAR(logit_loss({0.0, 1.0}, logits, teacher, three, 1.0, ops_.pool()), 0.0, 1e-5);
  for (const float value : logits.values()) {
    EXPECT_NEAR(value, 0.0f, 1e-6f);
  }
}

TEST_F(Losses, OfSquaresHaveTheirSlope) {
  Matrix y = random(2, 3);
  const Matrix start = ops_.copy(y);
  const Matrix target = random(2, 3);
  double expected = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    expected += std::pow(start.values()[i] - target.values()[i], 2);
  }
  EXPECT_NEAR(square_loss(y, target, 0.5), 0.5 * expected, 1e-5);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(y.values()[i], start.values()[i] - target.values()[i], 1e-5);
  }
}

}  // namespace
}  // namespace nibble::tune
