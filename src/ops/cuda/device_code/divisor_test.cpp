#include "ops/cuda/device_code/divisor.h"

#include <limits>

#include <gtest/gtest.h>

namespace nibble::ops::cuda {
namespace {

constexpr int kMost = std::numeric_limits<int>::max();

// A quotient can only be wrong beside a multiple.
TEST(Divisor, DividesAsDivisionDoes) {
  for (int value = 1; value < 3000; ++value) {
    const Divisor divisor(value);
    EXPECT_EQ(divisor.value(), value);
    const int last = kMost / value;
    for (const int times : {0, 1, 2, 7, 1000, last / 2, last - 1, last}) {
      if (times > last || times < 0) {
        continue;
      }
      const int multiple = times * value;
      ASSERT_EQ(divisor.quotient(multiple), times) << value;
      ASSERT_EQ(divisor.quotient(multiple + (value - 1 < kMost - multiple ? value - 1 : 0)), times)
          << value;
      if (times > 0) {
        ASSERT_EQ(divisor.quotient(multiple - 1), times - 1) << value;
      }
    }
    ASSERT_EQ(divisor.quotient(kMost), last) << value;
  }
  for (const int value : {1 << 30, (1 << 30) + 1, kMost - 1, kMost}) {
    for (const int number : {0, 1, value - 1, value, kMost}) {
      EXPECT_EQ(Divisor(value).quotient(number), number / value) << value << ' ' << number;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
