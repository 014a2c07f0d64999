#include "eval/analysis/position_means.h"

#include <cmath>

#include <gtest/gtest.h>

#include "eval/analysis/signal_to_noise.h"
#include "eval/metrics/sample_statistics.h"

namespace nibble::eval {
namespace {

TEST(Octaves, BeginBehindPowersOfTwo) {
  const std::vector<std::size_t> expected = {0, 1, 2, 2, 3, 3, 3, 3, 4};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i) + 1;
    EXPECT_EQ(octave_of(position), expected[i]) << position;
    EXPECT_LE(octave(expected[i]).first, position);
    EXPECT_GE(octave(expected[i]).last, position);
  }
  EXPECT_EQ(octave(10).first, 513);
  EXPECT_EQ(octave(10).last, 1024);
}

TEST(PositionMeans, OfWindowsOfDifferentLengths) {
  PositionMeans means;
  means.add_window(2, std::vector<double>{1, 2, 6});
  means.add_window(2, std::vector<double>{3});
  means.add_window(2, std::vector<double>{});  // no window
  EXPECT_EQ(means.positions(), 4);
  EXPECT_TRUE(std::isnan(means.at(1)));
  EXPECT_EQ(means.at(2), 2);
  EXPECT_EQ(means.at(3), 2);
  EXPECT_EQ(means.at(4), 6);
  EXPECT_TRUE(std::isnan(means.at(5)));
  ASSERT_EQ(means.octaves(), 3u);
  EXPECT_TRUE(std::isnan(means.in_octave(0).value));
  EXPECT_EQ(means.in_octave(1).value, 2);
  EXPECT_DOUBLE_EQ(means.in_octave(1).standard_error, 1);  // 1 and 3
  EXPECT_EQ(means.in_octave(2).value, 4);
  EXPECT_TRUE(std::isnan(means.in_octave(2).standard_error));  // of one window
  EXPECT_EQ(means.all().value, 3);
  // Sums 9 of 3 values and 3 of 1: both leave 0 beside the mean of 3.
  EXPECT_DOUBLE_EQ(means.all().standard_error, 0);
}

// Where windows have one length the error is that of their means.
TEST(PositionMeans, ErrorsAreThoseOfWindows) {
  const std::vector<float> values = {1, 2, 6, 0, 4, 5, -1, 3, 2};
  PositionMeans means;
  for (std::size_t window = 0; window < values.size(); window += 3) {
    means.add_window(1,
                     std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(window),
                                         values.begin() + static_cast<std::ptrdiff_t>(window) + 3));
  }
  const Mean expected = mean_of(values, 3);
  EXPECT_DOUBLE_EQ(means.all().value, expected.value);
  EXPECT_NEAR(means.all().standard_error, expected.window_standard_error, 1e-12);
}

// By hand: x is 0, 1, 2; three values each of two windows. Both lines are straight, with slopes 1
// and 3; the errors of the slopes' mean are those of two values one apart.
TEST(DoublingSlope, IsThatOfOneLineThroughAllValues) {
  DoublingSlope slope;
  EXPECT_TRUE(std::isnan(slope.slope().value));
  slope.add_window(1, std::vector<double>{0, 1});
  EXPECT_DOUBLE_EQ(slope.slope().value, 1);
  EXPECT_TRUE(std::isnan(slope.slope().standard_error));
  DoublingSlope both;
  for (const double steep : {1.0, 3.0}) {
    both.add_window(1, std::vector<double>{-steep, 0, steep * (std::log2(3.0) - 1), steep});
  }
  EXPECT_NEAR(both.slope().value, 2, 1e-12);
  EXPECT_NEAR(both.slope().standard_error, 1, 1e-12);
}

TEST(SignalToNoise, IsInDecibels) {
  SignalToNoise ratio;
  EXPECT_TRUE(std::isnan(ratio.decibels()));
  ratio.add(std::vector<float>{3, 4}, std::vector<float>{3, 4});
  EXPECT_TRUE(std::isinf(ratio.decibels()));
  ratio.add(std::vector<float>{5}, std::vector<float>{4.5f});
  EXPECT_DOUBLE_EQ(ratio.decibels(), 10 * std::log10(50 / 0.25));
}

}  // namespace
}  // namespace nibble::eval
