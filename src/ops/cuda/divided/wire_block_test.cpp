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

// The largest number of a block would round to a power of two that has no code.
TEST(WireBlock, StaysInItsRange) {
  std::vector<float> values(kWireBlock, 1.0f);
  values[5] = std::nextafter(2.0f, 0.0f);
  values[6] = -values[5];
  const std::vector<float> got = arrived(values);
  EXPECT_EQ(got[5], 2.0f - std::ldexp(1.0f, -13));
  EXPECT_EQ(got[6], -got[5]);
  EXPECT_EQ(got[0], 1.0f);
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> ends = arrived(std::vector<float>(kWireBlock, most));
  EXPECT_LE(std::abs(ends[0] - most), most * std::ldexp(1.0f, -13));
}

TEST(WireBlock, OfTinyNumbersLosesOnlyTinyOnes) {
  const std::vector<float> got =
      arrived(std::vector<float>(kWireBlock, std::numeric_limits<float>::min()));
  EXPECT_LE(std::abs(got[0] - std::numeric_limits<float>::min()), std::ldexp(1.0f, -125));
}

TEST(WireBlock, SaysThatANumberIsNotFinite) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
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
