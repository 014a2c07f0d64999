#include "ops/cuda/divided/wire_float.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/random_values_for_tests.h"

namespace nibble::ops::cuda {
namespace {

float wired(float value) {
  return std::bit_cast<float>(wire_bits(std::bit_cast<std::uint32_t>(value)));
}

TEST(WireFloat, IsTheNearestOf24Bits) {
  for (const float value : core::normal_values(1000, 5)) {
    for (const float scale : {1.0f, 1e-30f, 1e30f}) {
      const float x = value * scale;
      EXPECT_LE(std::abs(wired(x) - x), std::abs(x) * std::ldexp(1.0f, -16)) << x;
      EXPECT_EQ(wired(wired(x)), wired(x));
      EXPECT_EQ(wired(-x), -wired(x));
    }
  }
  EXPECT_EQ(wired(1.0f), 1.0f);
  EXPECT_EQ(wired(0.0f), 0.0f);
  EXPECT_EQ(wired(1.0f + std::ldexp(1.0f, -16)), 1.0f + std::ldexp(1.0f, -15)) << "a half";
}

TEST(WireFloat, KeepsWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(wired(kInfinity), kInfinity);
  EXPECT_EQ(wired(-kInfinity), -kInfinity);
  EXPECT_TRUE(std::isnan(wired(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(wire_bits(0x7fffffffu)))) << "the NaN of GPUs";
  EXPECT_EQ(wired(std::numeric_limits<float>::max()), kInfinity);
}

TEST(WireFloat, TravelsFourInThreeWords) {
  const std::vector<float> values = core::normal_values(400, 6);
  for (std::size_t i = 0; i < values.size(); i += 4) {
    std::uint32_t bits[4];
    std::uint32_t arrived[4];
    for (std::size_t j = 0; j < 4; ++j) {
      bits[j] = std::bit_cast<std::uint32_t>(values[i + j]);
    }
    from_wire(to_wire(bits), arrived);
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(arrived[j], wire_bits(bits[j]));
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
