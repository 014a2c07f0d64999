#include "compress/rotate/rotation.h"

#include <cmath>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "core/error.h"

namespace nibble::compress {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix matrix(const Rotation& rotation) {
  const auto n = static_cast<std::size_t>(rotation.size());
  Matrix rows(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    rows[i][i] = 1;
    rotation.apply(rows[i]);
  }
  return rows;
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

TEST(Rotation, IsOrthogonal) {
  for (const std::int64_t size : {12, 16, 36, 40}) {
    for (const Rotation& rotation : {Rotation::hadamard(size), Rotation::random_hadamard(size, 3),
                                     Rotation::random_keeping_ones(size, 3)}) {
      const Matrix rows = matrix(rotation);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          ASSERT_NEAR(product(rows[i], rows[j]), i == j ? 1 : 0, 1e-13) << i << ", " << j;
        }
      }
    }
  }
}

TEST(Rotation, SpreadsOneChannelOverAll) {
  for (const std::vector<double>& row : matrix(Rotation::random_hadamard(64, 3))) {
    for (const double value : row) {
      ASSERT_DOUBLE_EQ(std::fabs(value), 0.125);
    }
  }
  // The mirror adds a direction that is spread out itself.
  for (const std::vector<double>& row : matrix(Rotation::random_keeping_ones(64, 3))) {
    for (const double value : row) {
      ASSERT_LT(std::fabs(value), 0.6);
    }
  }
}

TEST(Rotation, KeepsOnes) {
  std::vector<double> ones(2 * 24, 1.0);
  Rotation::random_keeping_ones(24, 5).apply(ones);
  for (const double value : ones) {
    EXPECT_NEAR(value, 1.0, 1e-13);
  }
}

TEST(Rotation, SignsDependOnTheSeed) {
  EXPECT_EQ(matrix(Rotation::random_hadamard(32, 1)), matrix(Rotation::random_hadamard(32, 1)));
  EXPECT_NE(matrix(Rotation::random_hadamard(32, 1)), matrix(Rotation::random_hadamard(32, 2)));
  EXPECT_THROW(Rotation::random_hadamard(10, 1), core::Error);
}

// x W^T of the turned weight, input, norm and output against the original in float64. A rotation
// that is not symmetric (12) tells R from its transpose.
TEST(Rotation, TurnedWeightsComputeTheSame) {
  constexpr std::int64_t kN = 36;
  constexpr std::int64_t kK = 24;
  core::ThreadPool pool(2);
  const Rotation in = Rotation::random_hadamard(kK, 4);
  const Rotation out = Rotation::hadamard(12);
  const std::vector<float> original = core::normal_values(kN * kK, 1);
  const std::vector<float> x = core::normal_values(kK, 2);
  const std::vector<float> fold = core::normal_values(kK, 3);
  const std::vector<float> bias = core::normal_values(kN, 4);
  std::vector<float> w = original;
  std::vector<float> turned_bias = bias;
  turn_inputs(w, kK, fold, in, pool);
  turn_outputs(w, kK, turned_bias, 12, 24, out, pool);
  std::vector<double> turned_x(x.begin(), x.end());
  in.apply(turned_x);
  std::vector<double> expected(kN);
  std::vector<double> result(kN);
  for (std::size_t i = 0; i < kN; ++i) {
    expected[i] = bias[i];
    result[i] = turned_bias[i];
    for (std::size_t j = 0; j < kK; ++j) {
      expected[i] += static_cast<double>(original[i * kK + j]) * fold[j] * x[j];
      result[i] += w[i * kK + j] * turned_x[j];
    }
  }
  out.apply(std::span(expected).subspan(12, 24));
  for (std::size_t i = 0; i < kN; ++i) {
    ASSERT_NEAR(result[i], expected[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace nibble::compress
