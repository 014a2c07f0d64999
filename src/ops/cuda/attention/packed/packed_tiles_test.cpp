#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cuda/attention/packed/packed_attention.h"

namespace nibble::ops::cuda {

bool operator==(const PackedTile& a, const PackedTile& b) {
  return a.row == b.row && a.rows == b.rows && a.first == b.first && a.length == b.length;
}

void PrintTo(const PackedTile& tile, std::ostream* out) {
  *out << "{" << tile.row << ", " << tile.rows << ", " << tile.first << ", " << tile.length << "}";
}

namespace {

TEST(PackedTiles, CoverEachTextByItself) {
  const std::vector<std::int32_t> firsts{0, 1, 65, 65, 130};  // 1, 64, 0, 65 and 70 rows
  const std::vector<PackedTile> expected{{0, 1, 0, 1},     {1, 64, 1, 64},     {65, 64, 65, 65},
                                         {129, 1, 65, 65}, {130, 64, 130, 70}, {194, 6, 130, 70}};
  EXPECT_EQ(packed_tiles(firsts, 200), expected);
}

TEST(PackedTiles, AreEmptyUpToTheirCount) {
  const std::vector<std::int32_t> firsts{0};
  const std::vector<PackedTile> expected{{0, 32, 0, 40}, {32, 8, 0, 40}, {}, {}};
  EXPECT_EQ(packed_tiles(firsts, 40, 4, 32), expected);
  EXPECT_EQ(packed_tiles(firsts, 40, 1, 32).size(), 2u);
  EXPECT_EQ(packed_tiles({}, 0, 1), std::vector<PackedTile>(1));
}

TEST(PackedTiles, RefuseTextsThatAreNotInOrder) {
  EXPECT_THROW(packed_tiles(std::vector<std::int32_t>{0, 8, 4}, 10), core::Error);
  EXPECT_THROW(packed_tiles(std::vector<std::int32_t>{0, 8}, 7), core::Error);
  EXPECT_THROW(packed_tiles(std::vector<std::int32_t>{-1}, 7), core::Error);
}

std::string refusal(const PackedAttention& shape, std::int64_t stride = 192) {
  try {
    packed_attention(shape, nullptr, stride, nullptr, 1, nullptr, nullptr);
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

// Before anything is launched.
TEST(PackedAttention, RefusesWhatItCannotCompute) {
  const auto expect_refusal = [](const PackedAttention& shape, const char* words,
                                 std::int64_t stride = 192) {
    EXPECT_NE(refusal(shape, stride).find(words), std::string::npos) << refusal(shape, stride);
  };
  expect_refusal({3, 2, 64}, "3 query heads can't share 2 KV heads");
  expect_refusal({1, 1, 520}, "heads of 520 elements");
  expect_refusal({1, 1, 64, 0.0f}, "must be positive");
  expect_refusal({1, 1, 64, 1.0f, 48}, "tiles of 48 rows");
  expect_refusal({1, 1, 64}, "multiples of 16 bytes", 196);
  EXPECT_THROW(packed_attention_int8({1, 1, 80}, nullptr, 240, nullptr, 1, nullptr, nullptr),
               core::Error);
}

TEST(PackedAttention, RunsOnTensorCoresForCommonHeads) {
  EXPECT_TRUE(packed_attention_runs({1, 1, 64}));
  EXPECT_TRUE(packed_attention_runs({1, 1, 80}));
  EXPECT_FALSE(packed_attention_runs({1, 1, 48}));
  EXPECT_TRUE(packed_attention_int8_runs({1, 1, 96}));
  EXPECT_FALSE(packed_attention_int8_runs({1, 1, 80}));
}

}  // namespace
}  // namespace nibble::ops::cuda
