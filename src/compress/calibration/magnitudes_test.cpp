#include "compress/calibration/magnitudes.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "core/random.h"

namespace nibble::compress {
namespace {

// The share of a sorted list, counted one by one.
float counted(std::vector<float> magnitudes, double percent) {
  std::sort(magnitudes.begin(), magnitudes.end());
  const double wanted = percent / 100 * static_cast<double>(magnitudes.size());
  const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(wanted)));
  return magnitudes[rank - 1];
}

TEST(Magnitudes, PercentilesAreThoseOfASortedListUpToTheirBucket) {
  core::Random random(3);
  Magnitudes magnitudes;
  std::vector<float> all;
  for (int part = 0; part < 7; ++part) {
    std::vector<float> values;
    for (int i = 0; i < 1001; ++i) {
      values.push_back(std::exp(3 * random.normal()) * (i % 2 == 0 ? 1.0f : -1.0f));
      all.push_back(std::fabs(values.back()));
    }
    magnitudes.add(values);
  }
  for (const double percent : {0.001, 25.0, 50.0, 99.0, 99.9, 99.99}) {
    const float exact = counted(all, percent);
    EXPECT_GE(magnitudes.percentile(percent), exact) << percent;
    EXPECT_LE(magnitudes.percentile(percent), exact * (1 + 1.0f / 256)) << percent;
  }
  EXPECT_EQ(magnitudes.percentile(100), *std::max_element(all.begin(), all.end()));
}

TEST(Magnitudes, ZerosCountAndNothingIsZero) {
  Magnitudes magnitudes;
  EXPECT_EQ(magnitudes.percentile(99), 0.0f);
  std::vector<float> values(100, 0.0f);
  values[7] = -4.0f;
  magnitudes.add(values);
  EXPECT_EQ(magnitudes.percentile(99), 0.0f);
  EXPECT_EQ(magnitudes.percentile(99.5), 4.0f);
}

}  // namespace
}  // namespace nibble::compress
