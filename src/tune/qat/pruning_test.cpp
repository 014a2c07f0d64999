#include "tune/qat/pruning.h"

#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::tune {
namespace {

std::vector<float> pruned(std::vector<float> values, const Pruning& pruning,
                          const std::vector<float>& scores = {}) {
  prune(values, scores, pruning);
  return values;
}

TEST(Pruning, KeepsTheLargestOfEveryFour) {
  const std::vector<float> values = {1, -4, 3, 2, 0, 0, 5, 0, 1, 1, 1, 1, 7, 8, 9};
  EXPECT_EQ(pruned(values, parse_pruning("2:4")),
            (std::vector<float>{0, -4, 3, 0, 0, 0, 5, 0, 1, 1, 0, 0, 7, 8, 9}));
  EXPECT_EQ(pruned(values, parse_pruning("1:4")),
            (std::vector<float>{0, -4, 0, 0, 0, 0, 5, 0, 1, 0, 0, 0, 7, 8, 9}));
}

TEST(Pruning, PairsStayOrGoTogether) {
  const std::vector<float> values = {5, 0, 3, -3, 4, 0, 1, 1, 9};
  EXPECT_EQ(pruned(values, parse_pruning("4:8-pairs")),
            (std::vector<float>{5, 0, 3, -3, 0, 0, 0, 0, 9}));
  EXPECT_EQ(pruned(values, parse_pruning("2:8-pairs")),
            (std::vector<float>{0, 0, 3, -3, 0, 0, 0, 0, 9}));
}

TEST(Pruning, ScoresComeBeforeMagnitudes) {
  EXPECT_EQ(pruned({9, 8, 1, 2}, parse_pruning("2:4"), {-1, 0, 0, 2}),
            (std::vector<float>{0, 8, 0, 2}));
}

TEST(Pruning, IsReadAndNamed) {
  Pruning pruning = parse_pruning("4:8-pairs");
  EXPECT_EQ(name_of(pruning), "4of8pairs");
  pruning.by_movement = pruning.after_rounding = true;
  EXPECT_EQ(name_of(pruning), "4of8pairs-movement-rounded");
  EXPECT_EQ(name_of(parse_pruning("16:32")), "16of32");
  for (const char* text : {"", "2", "2:", ":4", "2:4x", "4:4", "0:4", "-1:4", "16:33", "1:4-pairs",
                           "2:5-pairs", "2:4 ", "2/4", "2:4-pairs-", "99999999999:4"}) {
    EXPECT_THROW(parse_pruning(text), core::Error) << text;
  }
}

}  // namespace
}  // namespace nibble::tune
