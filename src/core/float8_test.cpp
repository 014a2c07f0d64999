#include "core/float8.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/random.h"

namespace nibble::core {
namespace {

// Bytes 0x00 to 0x7e as ml_dtypes 0.6.0 reads them (float8_e4m3fn).
constexpr float kValues[127] = {
    0,        0.001953125, 0.00390625, 0.005859375, 0.0078125, 0.009765625, 0.01171875, 0.013671875,
    0.015625, 0.017578125, 0.01953125, 0.021484375, 0.0234375, 0.025390625, 0.02734375, 0.029296875,
    0.03125,  0.03515625,  0.0390625,  0.04296875,  0.046875,  0.05078125,  0.0546875,  0.05859375,
    0.0625,   0.0703125,   0.078125,   0.0859375,   0.09375,   0.1015625,   0.109375,   0.1171875,
    0.125,    0.140625,    0.15625,    0.171875,    0.1875,    0.203125,    0.21875,    0.234375,
    0.25,     0.28125,     0.3125,     0.34375,     0.375,     0.40625,     0.4375,     0.46875,
    0.5,      0.5625,      0.625,      0.6875,      0.75,      0.8125,      0.875,      0.9375,
    1,        1.125,       1.25,       1.375,       1.5,       1.625,       1.75,       1.875,
    2,        2.25,        2.5,        2.75,        3,         3.25,        3.5,        3.75,
    4,        4.5,         5,          5.5,         6,         6.5,         7,          7.5,
    8,        9,           10,         11,          12,        13,          14,         15,
    16,       18,          20,         22,          24,        26,          28,         30,
    32,       36,          40,         44,          48,        52,          56,         60,
    64,       72,          80,         88,          96,        104,         112,        120,
    128,      144,         160,        176,         192,       208,         224,        240,
    256,      288,         320,        352,         384,       416,         448};

TEST(E4m3, AllCodesHaveTheirValues) {
  for (int code = 0; code < 127; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const auto negative = static_cast<std::uint8_t>(code | 0x80);
    EXPECT_EQ(to_float(E4m3{byte}), kValues[code]) << code;
    EXPECT_EQ(to_float(E4m3{negative}), -kValues[code]) << code;
    EXPECT_TRUE(std::signbit(to_float(E4m3{negative}))) << code;
    EXPECT_EQ(to_e4m3(kValues[code]), E4m3{byte}) << code;
    EXPECT_EQ(to_e4m3(-kValues[code]), E4m3{negative}) << code;
  }
  EXPECT_TRUE(std::isnan(to_float(E4m3{0x7f})));
  EXPECT_TRUE(std::isnan(to_float(E4m3{0xff})));
}

TEST(E4m3, RoundsToNearestAndTiesToEven) {
  for (int code = 0; code < 126; ++code) {
    const float middle = 0.5f * (kValues[code] + kValues[code + 1]);  // exact
    EXPECT_EQ(to_e4m3(middle).bits, code + code % 2) << middle;
    EXPECT_EQ(to_e4m3(std::nextafter(middle, 0.0f)).bits, code) << middle;
    EXPECT_EQ(to_e4m3(-std::nextafter(middle, 1e9f)).bits, 0x80 | (code + 1)) << middle;
  }
  Random random(3);
  for (int i = 0; i < 100000; ++i) {
    const float value = std::fabs(random.normal()) * std::exp2(3.0f * random.normal());
    const float* above = std::lower_bound(kValues, kValues + 126, value);
    const float best = above == kValues || *above - value <= value - above[-1] ? *above : above[-1];
    EXPECT_EQ(std::fabs(to_float(to_e4m3(value)) - value), std::fabs(best - value)) << value;
  }
}

TEST(E4m3, SaturatesAndKeepsNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float large : {449.0f, 464.0f, 480.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(to_e4m3(large).bits, 0x7e);
    EXPECT_EQ(to_e4m3(-large).bits, 0xfe);
  }
  EXPECT_EQ(to_e4m3(1e-40f).bits, 0);
  EXPECT_EQ(to_e4m3(std::nanf("")).bits, 0x7f);
  EXPECT_EQ(to_e4m3(-std::nanf("")).bits, 0x7f);
}

}  // namespace
}  // namespace nibble::core
