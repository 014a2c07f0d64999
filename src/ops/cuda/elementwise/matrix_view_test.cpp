#include "ops/cuda/elementwise/matrix_view.h"

#include <cmath>

#include <gtest/gtest.h>

namespace nibble::ops::cuda {
namespace {

bool is_end(std::uint32_t half) {
  return !(std::fabs(core::to_float(core::Fp16{static_cast<std::uint16_t>(half)})) < 65504.0f);
}

// Every float16 in each of the four places, beside those that a carry might reach.
TEST(MatrixView, FindsTheEndsOfTheRangeOfFloat16) {
  constexpr std::uint32_t kOthers[] = {0,      1,      0x7bfe, 0x7bff, 0x7c00, 0x7e00,
                                       0x8000, 0xfbfe, 0xfbff, 0xfc00, 0xffff};
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    for (const std::uint32_t other : kOthers) {
      const bool expected = is_end(half) || is_end(other);
      ASSERT_EQ(has_saturated(half | other << 16, 0), expected) << half << ", " << other;
      ASSERT_EQ(has_saturated(other | half << 16, 0), expected) << half << ", " << other;
      ASSERT_EQ(has_saturated(0, half | other << 16), expected) << half << ", " << other;
      ASSERT_EQ(has_saturated(other, half << 16), expected) << half << ", " << other;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
