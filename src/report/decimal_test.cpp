#include "report/decimal.h"

#include <gtest/gtest.h>

namespace nibble::report {
namespace {

TEST(Decimal, ZeroHasNoSign) {
  EXPECT_EQ(decimal(-1e-9, 5), "0.00000");
  EXPECT_EQ(decimal(-0.0, 2), "0.00");
  EXPECT_EQ(decimal(-0.4, 0), "0");
  EXPECT_EQ(decimal(-0.00001, 5), "-0.00001");
  EXPECT_EQ(decimal(-0.0051, 2), "-0.01");
  EXPECT_EQ(decimal(1.2345, 2), "1.23");
  EXPECT_EQ(decimal(-1 / 0.0, 2), "-inf");
}

}  // namespace
}  // namespace nibble::report
