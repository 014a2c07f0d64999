#include "ops/cpu/sparse/row_tasks.h"

#include <gtest/gtest.h>

namespace nibble::ops::cpu {
namespace {

// Rows of which the first ten hold 90 groups, the others one.
std::vector<std::int32_t> uneven_rows(int rows) {
  std::vector<std::int32_t> ends = {0};
  for (int row = 0; row < rows; ++row) {
    ends.push_back(ends.back() + (row < 10 ? 90 : 1));
  }
  return ends;
}

TEST(RowTasks, CoverTheRowsOfEachLayerInEqualParts) {
  const std::vector<std::int32_t> first = uneven_rows(100);
  const std::vector<std::int32_t> second = uneven_rows(7);
  RowTasks tasks(1, false);
  tasks.add(first, 1000);
  tasks.add(second, 1000);
  ASSERT_EQ(tasks.count(), 8 + 7) << "no more tasks than rows";
  EXPECT_EQ(tasks.width(), 107);
  std::int64_t row = 0;
  for (std::int64_t task = 0; task < tasks.count(); ++task) {
    const auto [layer, begin, end, column] = tasks.at(task);
    EXPECT_EQ(layer, task < 8 ? 0U : 1U);
    EXPECT_EQ(column, task < 8 ? 0 : 100);
    row = task == 8 ? 0 : row;
    EXPECT_EQ(begin, row);
    row = end;
    EXPECT_EQ(row == (task < 8 ? 100 : 7), task == 7 || task == 14);
    if (task < 8) {
      EXPECT_LE(first[static_cast<std::size_t>(end)] - first[static_cast<std::size_t>(begin)],
                990 / 8 + 90);
    }
  }
}

TEST(RowTasks, AreShorterWhereManyTokensReadThemAgain) {
  const std::vector<std::int32_t> rows = uneven_rows(1000);
  for (const bool again : {false, true}) {
    RowTasks tasks(2, again);
    tasks.add(rows, 64 << 20);
    EXPECT_EQ(tasks.count(), again ? 512 : 64);
  }
  RowTasks few(2, true);
  few.add(rows, 1000);
  EXPECT_EQ(few.count(), 16) << "several for each thread";
}

}  // namespace
}  // namespace nibble::ops::cpu
