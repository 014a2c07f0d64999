#include "ops/cuda/divided/wire_block.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/random_values_for_tests.h"

namespace nibble::ops::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What arrives of eight numbers.
std::vector<float> arrived(const std::vector<float>& values) {
  std::uint32_t bits[kWireBlock];
  std::memcpy(bits, values.data(), sizeof(bits));
  const WireBlock block = to_wire_block(bits);
  EXPECT_TRUE(has_come(block));
  float result[kWireBlock];
  from_wire_block(block, result);
  return {result, result + kWireBlock};
}

float largest(const std::vector<float>& values) {
  float most = 0.0f;
  for (const float value : values) {
    most = std::max(most, std::abs(value));
  }
  return most;
}

TEST(WireBlock, IsNearAllNumbers) {
  const std::vector<float> all = core::normal_values(1600, 5);
  for (const float scale : {1.0f, 1e-30f, 1e30f}) {
    for (std::size_t first = 0; first < all.size(); first += kWireBlock) {
      std::vector<float> values(all.begin() + static_cast<std::ptrdiff_t>(first),
                                all.begin() + static_cast<std::ptrdiff_t>(first) + kWireBlock);
      for (float& value : values) {
        value *= scale;
      }
      values[3] *= 1e-3f;
      const std::vector<float> got = arrived(values);
      const float most = largest(values) * std::ldexp(1.0f, -14);
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_LE(std::abs(got[i] - values[i]), most) << i;
      }
      EXPECT_EQ(arrived(got), got) << "what has travelled travels as it is";
    }
  }
}

TEST(WireBlock, KeepsWholeNumbersAndZeros) {
  std::vector<float> values(kWireBlock, 0.0f);
  EXPECT_EQ(arrived(values), values);
  for (int i = 0; i < kWireBlock; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<float>((i % 2 == 0 ? 1 : -1) * (i << 10));
  }
  EXPECT_EQ(arrived(values), values);
}

// The largest number of a block rounds to a power of two, which has the next exponent.
TEST(WireBlock, StaysInItsRange) {
  std::vector<float> values(kWireBlock, 1.0f);
  values[5] = std::nextafter(2.0f, 0.0f);
  values[6] = -values[5];
  const std::vector<float> got = arrived(values);
  EXPECT_EQ(got[5], 2.0f);
  EXPECT_EQ(got[6], -2.0f);
  EXPECT_EQ(got[0], 1.0f);
  values[5] = 2.0f - std::ldexp(1.0f, -13);  // the largest code
  values[6] = -values[5];
  EXPECT_EQ(arrived(values), values);
  const std::vector<float> ends(kWireBlock, std::ldexp(1.0f, 128 - 14) * 16383.0f);
  EXPECT_EQ(arrived(ends), ends);
  EXPECT_TRUE(
      std::isnan(arrived(std::vector<float>(kWireBlock, std::numeric_limits<float>::max()))[0]));
}

TEST(WireBlock, OfTinyNumbersLosesOnlyTinyOnes) {
  const std::vector<float> got =
      arrived(std::vector<float>(kWireBlock, std::numeric_limits<float>::min()));
  EXPECT_LE(std::abs(got[0] - std::numeric_limits<float>::min()), std::ldexp(1.0f, -125));
}

TEST(WireBlock, SaysThatANumberIsNotFinite) {
  float all_ones = 0.0f;  // as NaN comes from GPUs
  const std::uint32_t bits = 0x7fffffffu;
  std::memcpy(&all_ones, &bits, sizeof(bits));
  for (const float bad :
       {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), all_ones, -all_ones}) {
    std::vector<float> values(kWireBlock, 1.0f);
    values[6] = bad;
    for (const float value : arrived(values)) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(WireBlock, IsToldFromZeros) {
  EXPECT_FALSE(has_come(WireBlock{}));
}

}  // namespace
}  // namespace nibble::ops::cuda
