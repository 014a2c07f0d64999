#include "engine/recent_steps.h"

#include <gtest/gtest.h>

namespace nibble::engine {
namespace {

TEST(RecentSteps, KeepsThoseThatWereAskedForLast) {
  RecentSteps<int, int> steps(3);
  for (const int kind : {1, 2, 3}) {
    EXPECT_EQ(steps.find(kind), nullptr);
    steps.add(kind) = 10 * kind;
  }
  ASSERT_NE(steps.find(1), nullptr);
  steps.add(4) = 40;
  EXPECT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps.find(2), nullptr) << "asked for before all others";
  EXPECT_EQ(*steps.find(1), 10);
  EXPECT_EQ(*steps.find(3), 30);
  EXPECT_EQ(*steps.find(4), 40);
}

TEST(RecentSteps, StepsStayWhereTheyAre) {
  RecentSteps<int, int> steps(2);
  int* const first = &steps.add(1);
  steps.add(2);
  EXPECT_EQ(steps.find(1), first);
}

}  // namespace
}  // namespace nibble::engine
