#include "ops/row_draw.h"

#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "core/random.h"

namespace nibble::ops {
namespace {

TEST(TokenWeights, AreThoseOfExp) {
  core::Random random(6);
  for (int i = 0; i < 100'000; ++i) {
    const double x = -random.uniform() * (i % 2 == 0 ? 1.0 : 31.0);
    const double expected = std::exp(x) * static_cast<double>(kFirstWeight);
    EXPECT_NEAR(static_cast<double>(weight_of(x)), expected, 1.0 + expected * 0x1p-44) << x;
  }
  EXPECT_EQ(weight_of(0.0), kFirstWeight);
  EXPECT_EQ(weight_of(-31.0), 0u);
  EXPECT_EQ(weight_of(-std::numeric_limits<double>::infinity()), 0u);
}

std::map<std::int32_t, int> counts_of(const std::vector<float>& logits, TokenDraw draw, int times) {
  core::Random random(3);
  RowWeights weights;
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < times; ++i) {
    draw.uniform = random.uniform();
    ++counts[draw_from_row(logits, draw, weights)];
  }
  return counts;
}

TEST(RowDraw, FollowsItsDistribution) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  auto counts = counts_of(logits, {.temperature = 1.0f}, 8000);
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_NEAR(counts[1], 2000, 160);
  EXPECT_NEAR(counts[2], 5000, 200);
  counts = counts_of(logits, {.temperature = 0.5f}, 9000);  // 1, 4 and 25 of 30
  EXPECT_NEAR(counts[0], 300, 70);
  EXPECT_NEAR(counts[1], 1200, 130);
}

// Turns that were not taken must not change the shares of those that may be.
TEST(RowDraw, FollowsItWithinTheFewestThatReachP) {
  const std::vector<float> logits = {std::log(2.0f), std::log(5.0f), std::log(1.0f), std::log(2.0f),
                                     -40.0f};
  auto counts = counts_of(logits, {.temperature = 1.0f, .top_p = 0.75f}, 9000);  // 5, 2, 2 of 10
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_NEAR(counts[0], 2000, 160);
  EXPECT_NEAR(counts[1], 5000, 200);
  EXPECT_NEAR(counts[3], 2000, 160);
  counts = counts_of(logits, {.temperature = 1.0f, .top_p = 0.65f}, 7000);  // the lower id of two
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_NEAR(counts[0], 2000, 160);
  counts = counts_of(logits, {.temperature = 2.0f, .top_p = 0.45f}, 100);
  EXPECT_EQ(counts, (std::map<std::int32_t, int>{{1, 100}}));
  counts = counts_of(logits, {.temperature = 1.0f, .top_p = 0.0f}, 100);
  EXPECT_EQ(counts, (std::map<std::int32_t, int>{{1, 100}}));
  counts = counts_of(logits, {.temperature = 1.0f, .min_p = 0.3f}, 9000);
  EXPECT_EQ(counts.size(), 3u);
}

// The second turn goes among the tokens before the one that the first has found.
TEST(RowDraw, TurnsAreAmongThoseBefore) {
  const std::vector<float> logits = {std::log(5.0f), std::log(2.0f), std::log(2.0f),
                                     std::log(1.0f)};
  RowWeights weights;
  int seen = 0;
  for (double uniform = 0.901; uniform < 1.0;
       uniform += 0.001) {  // the last, which is none of them
    const double second = next_uniform(uniform);
    const std::int32_t expected = second * 9 < 5 ? 0 : second * 9 < 7 ? 1 : 2;
    EXPECT_EQ(
        draw_from_row(logits, {.uniform = uniform, .temperature = 1.0f, .top_p = 0.75f}, weights),
        expected)
        << uniform;
    seen += expected != (second * 10 < 5 ? 0 : second * 10 < 7 ? 1 : second * 10 < 9 ? 2 : 3);
  }
  EXPECT_GT(seen, 5) << "where it makes a difference";
}

TEST(RowDraw, NeverTakesWhatIsForbidden) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {kNever, 0.5f, kNever, 0.5f, kNever};
  const auto counts = counts_of(logits, {.temperature = 3.0f}, 1000);
  EXPECT_EQ(counts.size(), 2u);
  RowWeights weights;
  EXPECT_EQ(draw_from_row(std::vector<float>{1.0f, -kNever, 2.0f}, {.temperature = 1.0f}, weights),
            1);
  EXPECT_EQ(draw_from_row(std::vector<float>{kNever, kNever}, {.temperature = 1.0f}, weights), 0);
  EXPECT_EQ(draw_from_row(logits, {.uniform = 0.0, .temperature = 1.0f}, weights), 1);
  EXPECT_EQ(
      draw_from_row(logits, {.uniform = std::nextafter(1.0, 0.0), .temperature = 1.0f}, weights),
      3);
}

}  // namespace
}  // namespace nibble::ops
