#include "formats/bit_packing.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"

namespace nibble::formats {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes packed(const Bytes& codes, int bits) {
  Bytes bytes(static_cast<std::size_t>(packed_bytes(static_cast<std::int64_t>(codes.size()), bits)),
              0xee);  // what is not written shows
  pack(codes, bits, bytes);
  return bytes;
}

TEST(BitPacking, GivesTheBytesComputedByHand) {
  EXPECT_EQ(packed({1, 2, 3, 0, 2}, 2), (Bytes{0x39, 0x02}));
  //  code   7   6   5   4   3   2   1   0
  //  bits  111 110 101 100 011 010 001 000   = 0xfac688
  EXPECT_EQ(packed({0, 1, 2, 3, 4, 5, 6, 7}, 3), (Bytes{0x88, 0xc6, 0xfa}));
  EXPECT_EQ(packed({7, 0, 7}, 3), (Bytes{0xc7, 0x01}));
  EXPECT_EQ(packed({1, 15, 9}, 4), (Bytes{0xf1, 0x09}));
  EXPECT_EQ(packed({0, 255, 128}, 8), (Bytes{0, 255, 128}));
  EXPECT_EQ(packed({}, 4), Bytes{});
}

TEST(BitPacking, EveryLengthSurvivesTheRoundTrip) {
  core::Random random(1);
  for (const int bits : {2, 3, 4, 8}) {
    for (std::size_t count = 0; count < 130; ++count) {
      Bytes codes(count);
      for (auto& code : codes) {
        code = static_cast<std::uint8_t>(random.below(1 << bits));
      }
      const Bytes bytes = packed(codes, bits);
      EXPECT_EQ(bytes.size(), (count * static_cast<std::size_t>(bits) + 7) / 8);
      Bytes back(count, 0xee);
      unpack(bytes, bits, back);
      EXPECT_EQ(back, codes) << bits << " bits, " << count << " codes";
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(get_code(bytes, bits, static_cast<std::int64_t>(i)), codes[i]);
      }
    }
  }
}

TEST(BitPacking, LeavesTheBitsAfterTheLastCodeZero) {
  EXPECT_EQ(packed({3}, 2)[0], 0x03);
  EXPECT_EQ(packed({7, 7, 7, 7, 7}, 3)[1], 0x7f);
  EXPECT_EQ(packed({15, 15, 15}, 4)[1], 0x0f);
}

TEST(BitPacking, SetsOneCodeAndNoOther) {
  core::Random random(2);
  for (const int bits : {2, 3, 4, 8}) {
    Bytes codes(37, 0);
    Bytes bytes = packed(codes, bits);
    for (int step = 0; step < 500; ++step) {
      const auto at = static_cast<std::size_t>(random.below(37));
      codes[at] = static_cast<std::uint8_t>(random.below(1 << bits));
      set_code(bytes, bits, static_cast<std::int64_t>(at), codes[at]);
      ASSERT_EQ(bytes, packed(codes, bits));
    }
  }
}

TEST(BitPacking, CountsBytesWithoutOverflow) {
  EXPECT_EQ(packed_bytes(1, 3), 1);
  EXPECT_EQ(packed_bytes(3, 3), 2);
  EXPECT_EQ(packed_bytes(8, 3), 3);
  EXPECT_EQ(packed_bytes(std::int64_t{1} << 60, 8), std::int64_t{1} << 60);
  EXPECT_EQ(packed_bytes((std::int64_t{1} << 62) + 1, 3), (std::int64_t{1} << 59) * 3 + 1);
}

}  // namespace
}  // namespace nibble::formats
