#include "ops/cpu/packed/emulated_tiles.h"

#include <gtest/gtest.h>

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
    const AmxScope<EmulatedTiles> scope(kUnit);
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

TEST(EmulatedTiles, RefuseWhatTheProcessorRefuses) {
  std::int8_t bytes[16 * 64] = {};
  EXPECT_THROW(EmulatedTiles::load<4>(bytes, 64), std::logic_error);  // not configured
  AmxConfig config = amx_config(2 * kUnit);
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
TEST(AmxConfig, LiesAsTheInstructionReadsIt) {
  const AmxConfig config = amx_config(kUnit);
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
