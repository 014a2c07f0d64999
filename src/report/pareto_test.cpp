#include "report/pareto.h"

#include <gtest/gtest.h>

namespace nibble::report {
namespace {

TEST(Pareto, FrontOfAHandMadeSet) {
  const std::vector<Costs> things = {
      {16, 0},   // 0: dearest and without loss
      {4, 3},    // 1: on the front
      {4, 5},    // 2: as dear as 1, worse
      {8, 1},    // 3: on the front
      {9, 1},    // 4: as good as 3, dearer
      {3, 9},    // 5: cheapest
      {5, 4},    // 6: beaten by 1 in both
      {4.5, 2},  // 7: on the front
      {8, 1},    // 8: equal to 3
  };
  EXPECT_EQ(pareto_front(things), (std::vector<std::size_t>{5, 1, 7, 3, 8, 0}));
}

TEST(Pareto, SmallSets) {
  EXPECT_TRUE(pareto_front({}).empty());
  const std::vector<Costs> one = {{1, 1}};
  EXPECT_EQ(pareto_front(one), (std::vector<std::size_t>{0}));
}

}  // namespace
}  // namespace nibble::report
