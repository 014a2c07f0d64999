#include "report/axis.h"

#include <set>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::report {
namespace {

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> labels;
  for (const Tick& tick : axis.ticks()) {
    labels.push_back(tick.label);
  }
  return labels;
}

TEST(Axis, LinearTicksAreRoundNumbers) {
  EXPECT_EQ(labels(Axis(Scaling::kLinear, 0, 10, 0, 100)),
            (std::vector<std::string>{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels(Axis(Scaling::kLinear, 0, 60000, 0, 100)),
            (std::vector<std::string>{"0", "20000", "40000", "60000"}));
  EXPECT_EQ(labels(Axis(Scaling::kLinear, -0.1, 0.1, 0, 100)),
            (std::vector<std::string>{"-0.1", "-0.05", "0", "0.05", "0.1"}));
}

TEST(Axis, LogarithmicTicks) {
  EXPECT_EQ(labels(Axis(Scaling::kLogarithmic, 0.001, 10, 0, 100)),
            (std::vector<std::string>{"0.001", "0.01", "0.1", "1", "10"}));
  EXPECT_EQ(labels(Axis(Scaling::kLogarithmic, 0.02, 0.5, 0, 100)),
            (std::vector<std::string>{"0.02", "0.05", "0.1", "0.2", "0.5"}));
}

TEST(Axis, LogarithmicTicksOfOneDecade) {
  EXPECT_EQ(labels(Axis(Scaling::kLogarithmic, 3, 16, 0, 100)),
            (std::vector<std::string>{"3", "4", "6", "8", "10"}));
}

TEST(Axis, NearlyEqualValuesGetTicksThatDiffer) {
  for (const Scaling scaling : {Scaling::kLinear, Scaling::kLogarithmic}) {
    for (const double spread : {1e-2, 1e-6, 1e-10}) {
      const auto all = labels(Axis(scaling, 20.5, 20.5 * (1 + spread), 0, 100));
      EXPECT_GE(all.size(), 4u) << spread;
      EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size()) << spread;
    }
  }
}

TEST(Axis, MiddlesLieInTheMiddle) {
  EXPECT_NEAR(Axis(Scaling::kLinear, 2, 6, 0, 100).at(4), 50, 1e-9);
  EXPECT_NEAR(Axis(Scaling::kLogarithmic, 0.01, 100, 100, 0).at(1), 50, 1e-9);
  EXPECT_LT(Axis(Scaling::kLogarithmic, 0.01, 100, 100, 0).at(99), 50);  // upwards
}

TEST(Axis, OneValueGetsARange) {
  EXPECT_NEAR(Axis(Scaling::kLinear, 3, 3, 0, 100).at(3), 50, 1e-9);
  EXPECT_NEAR(Axis(Scaling::kLinear, 0, 0, 0, 100).at(0), 50, 1e-9);
  EXPECT_NEAR(Axis(Scaling::kLogarithmic, 3, 3, 0, 100).at(3), 50, 1e-9);
}

TEST(Axis, RefusesWhatHasNoPlace) {
  EXPECT_THROW(Axis(Scaling::kLogarithmic, 0, 1, 0, 100), core::Error);
  EXPECT_THROW(Axis(Scaling::kLinear, 1, 0, 0, 100), core::Error);
  EXPECT_THROW(Axis(Scaling::kLinear, 0, 1 / 0.0, 0, 100), core::Error);
}

}  // namespace
}  // namespace nibble::report
