#include "eval/metrics/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "core/json.h"
#include "io/json_file.h"

// Against NumPy and SciPy (tests/reference/make_divergence_goldens.py).
namespace nibble::eval {
namespace {

using core::Json;

const Json& golden() {
  static const Json json =
      io::load_json_file(NIBBLE_SOURCE_DIR "/src/eval/goldens/divergence.json")["samples"];
  return json;
}

// null stands for a value that is not defined.
void expect_value(double value, const Json& expected, const std::string& what) {
  if (expected.is_null()) {
    EXPECT_TRUE(std::isnan(value)) << what << ": " << value;
  } else {
    EXPECT_NEAR(value, expected.get<double>(), 1e-12) << what;
  }
}

TEST(SampleStatistics, MeansAndStandardErrorsAsInScipy) {
  ASSERT_GE(golden().size(), 5u);
  for (const Json& row : golden()) {
    const auto values = row["values"].get<std::vector<float>>();
    const Mean mean = mean_of(values, row["window"].get<std::size_t>());
    expect_value(mean.value, row["mean"], "mean");
    expect_value(mean.standard_error, row["standard_error"], "standard error");
    expect_value(mean.window_standard_error, row["window_standard_error"], "of windows");
  }
}

TEST(SampleStatistics, QuantilesAsInNumpy) {
  for (const Json& row : golden()) {
    auto values = row["values"].get<std::vector<float>>();
    std::sort(values.begin(), values.end());
    for (const Json& point : row["quantiles"]) {
      expect_value(quantile(values, point[0].get<double>()), point[1], point.dump());
    }
    for (const Json& point : row["intervals"]) {
      const Interval interval = quantile_interval(values, point[0].get<double>());
      expect_value(interval.low, point[1], point.dump());
      expect_value(interval.high, point[2], point.dump());
    }
  }
}

// 5 of 20: sqrt(0.25 * 0.75 / 20).
TEST(SampleStatistics, StandardErrorOfAShare) {
  EXPECT_NEAR(share_standard_error(0.25, 20), 0.09682458365518543, 1e-15);
  EXPECT_EQ(share_standard_error(1, 20), 0);
}

TEST(SampleStatistics, RefusesNoValuesAndBrokenWindows) {
  const std::vector<float> three = {1, 2, 3};
  EXPECT_THROW(mean_of({}, 1), core::Error);
  EXPECT_THROW(mean_of(three, 2), core::Error);
  EXPECT_THROW(mean_of(three, 0), core::Error);
  EXPECT_THROW(quantile({}, 0.5), core::Error);
}

}  // namespace
}  // namespace nibble::eval
