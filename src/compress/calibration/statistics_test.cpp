#include "compress/calibration/statistics.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kInputs = 300;

InputStatistics observed(StatisticsKind kind, int threads) {
  ops::cpu::CpuOps ops({threads, ops::ActivationPrecision::kFloat});
  InputStatistics statistics(kind, kInputs);
  core::Random random(1);
  for (const std::int64_t rows : {5, 17}) {
    ops::cpu::Matrix x = ops.matrix(rows, kInputs);
    for (std::int64_t i = 0; i < rows * kInputs; ++i) {
      x.data()[i] = random.normal();
    }
    statistics.add(x, ops.pool());
  }
  return statistics;
}

TEST(InputStatistics, MeanSquaresAreTheDiagonalOfTheHessian) {
  const auto squares = observed(StatisticsKind::kChannels, 2).mean_squares();
  const auto diagonal = observed(StatisticsKind::kHessian, 2).mean_squares();
  double sum = 0;
  for (std::size_t i = 0; i < kInputs; ++i) {
    EXPECT_NEAR(squares[i], diagonal[i], 1e-5f * diagonal[i]);
    sum += squares[i] / static_cast<double>(kInputs);
  }
  EXPECT_NEAR(sum, 1.0, 0.1);  // normal numbers
  EXPECT_EQ(observed(StatisticsKind::kChannels, 1).mean_squares(), squares);
}

TEST(InputStatistics, InputsThatWereNeverActiveCountAlike) {
  EXPECT_EQ(InputStatistics(StatisticsKind::kChannels, 3).mean_squares(),
            std::vector<float>(3, 1.0f));
  EXPECT_EQ(InputStatistics(StatisticsKind::kHessian, 3).mean_squares(),
            std::vector<float>(3, 1.0f));
}

}  // namespace
}  // namespace nibble::compress
