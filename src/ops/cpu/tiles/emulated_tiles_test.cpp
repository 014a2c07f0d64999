#include "ops/cpu/tiles/emulated_tiles.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "core/float16.h"
#include "ops/cpu/packed/amx_tiles.h"

// The emulation against sums made by hand and against what the manual calls an error.
namespace nibble::ops::cpu {
namespace {

/// Twice the product of some codes with some weights, whose bytes above 127 are signed or not.
template <bool Signed>
void expect_products() {
  const int large = Signed ? 255 - 256 : 255;
  const int middle = Signed ? 200 - 256 : 200;
  std::int8_t a[16][32] = {};
  std::uint8_t b[8][64] = {};
  std::int32_t c[16][16] = {};
  a[0][0] = -128;
  a[0][5] = 3;
  a[1][31] = 127;
  b[0][4 * 2] = 255;       // row 2 of the weights, input 0
  b[1][4 * 2 + 1] = 200;   // row 2, input 5
  b[1][4 * 9 + 1] = 7;     // row 9, input 5
  b[7][4 * 15 + 3] = 255;  // row 15, input 31
  {
    const TileScope<EmulatedTiles> scope(amx_config(kUnit));
    EmulatedTiles::zero<0>();
    EmulatedTiles::load<4>(a, 32);
    EmulatedTiles::load<6>(b, 64);
    EmulatedTiles::multiply<0, 4, 6, Signed>();
    EmulatedTiles::multiply<0, 4, 6, Signed>();
    EmulatedTiles::store<0>(c, 64);
    EXPECT_TRUE(EmulatedTiles::is_configured());
  }
  EXPECT_FALSE(EmulatedTiles::is_configured());
  for (int token = 0; token < 16; ++token) {
    for (int row = 0; row < 16; ++row) {
      int expected = 0;
      if (token == 0 && row == 2) {
        expected = 2 * (-128 * large + 3 * middle);
      } else if (token == 0 && row == 9) {
        expected = 2 * 3 * 7;
      } else if (token == 1 && row == 15) {
        expected = 2 * 127 * large;
      }
      EXPECT_EQ(c[token][row], expected) << token << ' ' << row;
    }
  }
}

TEST(EmulatedTiles, MultiplySignedCodesWithUnsignedWeights) {
  expect_products<false>();
}
TEST(EmulatedTiles, MultiplySignedCodesWithSignedWeights) {
  expect_products<true>();
}

/// Sums of one row of A and one column of B over 32 inputs, onto `before`.
float bf16_sum(const float (&a)[32], const float (&b)[32], float before) {
  core::Bf16 row[32];
  core::Bf16 column[32];  // [16 pairs][1 column][2]
  for (int i = 0; i < 32; ++i) {
    row[i] = core::to_bf16(a[i]);
    column[i] = core::to_bf16(b[i]);
  }
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.set(tile, 16, 4);
  }
  config.set(0, 1, 4);
  config.set(4, 1, 64);
  const TileScope<EmulatedTiles> scope(config);
  EmulatedTiles::load<0>(&before, 4);
  EmulatedTiles::load<4>(row, 64);
  EmulatedTiles::load<6>(column, 4);
  EmulatedTiles::multiply_bf16<0, 4, 6>();
  EmulatedTiles::store<0>(&before, 4);
  return before;
}

// The manual: a chain of fused multiply-adds over the even inputs and one over the odd ones; their
// sum is added to what was there.
TEST(EmulatedTiles, AddProductsOfBf16InTheOrderOfTheManual) {
  EXPECT_EQ(bf16_sum({3, 5}, {7, -2}, 100), 100 + 21 - 10);
  const float large = std::ldexp(1.0f, 24);
  EXPECT_EQ(bf16_sum({large, 0, 1, 0, -large}, {1, 0, 1, 0, 1}, 0), 0);  // 2^24 + 1 is even: 2^24
  EXPECT_EQ(bf16_sum({large, 1, -large}, {1, 1, 1}, 0), 1);              // the odd ones are apart
  EXPECT_EQ(bf16_sum({large, 0, 3, 0, -large}, {1, 0, 1, 0, 1}, 0), 4);  // to the even neighbour
  EXPECT_EQ(bf16_sum({1}, {1}, large), large);
  const float ulp = std::ldexp(1.0f, -7);
  EXPECT_EQ(bf16_sum({1 + ulp, 0, -1}, {1 + ulp, 0, 1 + 2 * ulp}, 0), ulp * ulp);
}

TEST(EmulatedTiles, CountSubnormalNumbersAsZero) {
  const float least = std::numeric_limits<float>::min();
  EXPECT_EQ(bf16_sum({least / 2}, {1024}, 0), 0);       // of A
  EXPECT_EQ(bf16_sum({1024}, {least / 2}, 0), 0);       // of B
  EXPECT_EQ(bf16_sum({}, {}, least / 2), 0);            // of C
  EXPECT_EQ(bf16_sum({least}, {0.5f}, 0), 0);           // a product
  EXPECT_EQ(bf16_sum({least}, {1}, -1.5f * least), 0);  // a sum
  EXPECT_EQ(bf16_sum({least}, {1}, 0), least);
}

TEST(EmulatedTiles, KeepInfinitiesAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bf16_sum({infinity}, {2}, 1), infinity);
  EXPECT_TRUE(std::isnan(bf16_sum({infinity}, {0}, 1)));
  EXPECT_TRUE(std::isnan(bf16_sum({std::nanf("")}, {1}, 1)));
}

TEST(EmulatedTiles, RefuseWhatTheProcessorRefuses) {
  std::int8_t bytes[16 * 64] = {};
  EXPECT_THROW(EmulatedTiles::load<4>(bytes, 64), std::logic_error);  // not configured
  TileConfig config = amx_config(2 * kUnit);
  config.rows[6] = 17;
  EXPECT_THROW(EmulatedTiles::configure(config), std::logic_error);
  config = amx_config(2 * kUnit);
  config.row_bytes[4] = 32;  // A rows of 32 codes, B of 16 quads
  EmulatedTiles::configure(config);
  EXPECT_THROW((EmulatedTiles::multiply<0, 4, 6, true>()), std::logic_error);
  EmulatedTiles::release();
}

// Intel's manual, volume 2, LDTILECFG, table "Memory Area Layout": palette in byte 0, bytes of rows
// from byte 16 on in two bytes each, rows from byte 48 on.
TEST(TileConfig, LiesAsTheInstructionReadsIt) {
  const TileConfig config = amx_config(kUnit);
  std::uint8_t bytes[64];
  std::memcpy(bytes, &config, sizeof(bytes));
  EXPECT_EQ(bytes[0], 1);
  EXPECT_EQ(bytes[16 + 2 * 4], 32);  // A
  EXPECT_EQ(bytes[16 + 2 * 6], 64);  // B
  EXPECT_EQ(bytes[48 + 4], 16);
  EXPECT_EQ(bytes[48 + 3], 16);  // C
  EXPECT_EQ(bytes[48 + 7], 8);
}

}  // namespace
}  // namespace nibble::ops::cpu
