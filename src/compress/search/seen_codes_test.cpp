#include "compress/search/seen_codes.h"

#include <array>

#include <gtest/gtest.h>

namespace nibble::compress {
namespace {

constexpr std::uint64_t kHash = 12345;

class SeenCodesTest : public testing::Test {
 protected:
  SeenCodesTest() { seen_.clear(); }

  SeenCodes::Visit* visit(std::uint8_t code, const SeenCodes::Visit& now,
                          std::uint64_t hash = kHash) {
    const std::array<std::uint8_t, 3> codes = {1, 2, code};
    return seen_.visit(std::as_bytes(std::span(codes)), hash, now);
  }

  SeenCodes seen_;
};

TEST_F(SeenCodesTest, EarlierDescentsCoverThoseWithAsManyRoundsOrFewer) {
  EXPECT_NE(visit(7, {false, 2, 1.0}), nullptr);
  EXPECT_EQ(visit(7, {false, 2, 1.0}), nullptr);
  EXPECT_EQ(visit(7, {false, 3, 5.0}), nullptr);
  EXPECT_NE(visit(7, {false, 1, 5.0}), nullptr);  // has a round more, and is covered from now on
  EXPECT_EQ(visit(7, {false, 1, 5.0}), nullptr);
}

TEST_F(SeenCodesTest, ADescentThatLostMoreMayGoOnWhereAnEarlierOneEnded) {
  SeenCodes::Visit* const earlier = visit(7, {false, 0, 1.0});
  ASSERT_NE(earlier, nullptr);
  earlier->ended = true;
  EXPECT_EQ(visit(7, {false, 0, 0.5}), nullptr);
  EXPECT_EQ(visit(7, {false, 0, 1.0}), nullptr);
  EXPECT_NE(visit(7, {false, 0, 2.0}), nullptr);
  EXPECT_EQ(visit(7, {false, 0, 3.0}), nullptr);  // the later one did not end
}

TEST_F(SeenCodesTest, TellsCodesAndSignsApartWhateverTheHash) {
  for (const bool negative : {false, true}) {
    for (std::uint8_t code = 0; code < 9; ++code) {
      // The hash of a negative scale is that of a positive one but for its last bit.
      EXPECT_NE(visit(code, {negative, 0, 1.0}, negative ? kHash ^ 1 : kHash), nullptr);
      EXPECT_EQ(visit(code, {negative, 0, 1.0}, negative ? kHash ^ 1 : kHash), nullptr);
    }
  }
  seen_.clear();
  EXPECT_NE(visit(3, {false, 0, 1.0}), nullptr);
}

TEST_F(SeenCodesTest, ForgetsWhatIsTooMuch) {
  std::uint64_t remembered = 0;
  for (std::uint64_t hash = 0; hash < 5000; ++hash) {
    ASSERT_NE(visit(1, {false, 0, 1.0}, hash), nullptr);
    remembered += visit(1, {false, 0, 1.0}, hash) == nullptr ? 1 : 0;
  }
  EXPECT_EQ(remembered, 512u);
}

}  // namespace
}  // namespace nibble::compress
