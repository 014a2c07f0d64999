#include "formats/column_slice.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random_values_for_tests.h"
#include "formats/cut_weights_for_tests.h"
#include "formats/format.h"

namespace nibble::formats {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kInputs = 768;

PackedWeight weight_of(const std::string& scheme, std::int64_t k = kInputs) {
  const std::vector<float> values = core::normal_values(kRows * k, 11);
  return round_to_nearest(values, kRows, k, parse_scheme(scheme));
}

void expect_columns_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end) {
  SCOPED_TRACE(to_string(weight.scheme) + " from " + std::to_string(begin));
  const PackedWeight slice = columns_of(weight, begin, end);
  validate(slice, "slice");
  ASSERT_EQ(slice.k, end - begin);
  EXPECT_EQ(slice.n, weight.n);
  EXPECT_EQ(slice.scheme, weight.scheme);
  EXPECT_EQ(stored_bytes(slice), stored_bytes(slice.scheme, slice.n, slice.k));
  for (std::int64_t row = 0; row < slice.n; ++row) {
    const std::vector<float> whole = decoded(weight, row);
    EXPECT_EQ(decoded(slice, row), std::vector<float>(whole.begin() + begin, whole.begin() + end))
        << "row " << row;
  }
}

TEST(ColumnSlice, DecodesToTheInputsOfTheWhole) {
  std::vector<PackedWeight> weights;
  for (const char* scheme : {"f32",
                             "f16",
                             "bf16",
                             "int8-sym-row",
                             "int8-sym-tensor",
                             "int4-sym-g32",
                             "int4-asym-g64",
                             "int4-asym-row",
                             "int3-asym-g32",
                             "int2-asym-g16",
                             "int4-asym-g32-s7",
                             "lut4-nf4-g64",
                             "mxfp4",
                             "nvfp4",
                             "fp8-row",
                             "fp8-tensor",
                             "int8-sym-row-a8s",
                             "int4-asym-g32-h32",
                             "int4-sym-g64-a4g128",
                             "int8-sym-row-a8"}) {
    weights.push_back(weight_of(scheme));
  }
  for (const char* scheme : {"lut4-row-g32", "lut3-row-g64"}) {
    weights.push_back(weight_with_book(scheme, kRows, kInputs));
  }
  for (const char* scheme : {"int4-min-g32", "int8-sym-g16-s8", "int4-min-g32-s8"}) {
    weights.push_back(weight_of_blocks(scheme, kRows, kInputs));
  }
  for (const PackedWeight& weight : weights) {
    const std::int64_t step = column_cuts(weight.scheme, weight.k).step;
    for (const auto& [begin, end] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{0, kInputs},
                                                            {0, step},
                                                            {step, 2 * step},
                                                            {kInputs - step, kInputs},
                                                            {256, kInputs},
                                                            {0, 512}}) {
      expect_columns_of(weight, begin, end);
    }
  }
}

// The last group of a row may be short, and so is that of the last part.
TEST(ColumnSlice, KeepsAShortLastGroup) {
  expect_columns_of(weight_of("int4-asym-g64", 160), 64, 160);
  expect_columns_of(weight_of("int4-asym-g64", 160), 128, 160);
}

TEST(ColumnSlice, CutsWhereWhatInputsShareEnds) {
  const auto step = [](const char* scheme) {
    return column_cuts(parse_scheme(scheme), kInputs).step;
  };
  EXPECT_EQ(step("bf16"), 1);
  EXPECT_EQ(step("int4-sym-row"), 8) << "a byte holds two codes, eight of 3 bits three";
  EXPECT_EQ(step("int4-sym-g128"), 128);
  EXPECT_EQ(step("int4-sym-g64-a4g128"), 128);
  EXPECT_EQ(step("int4-min-g32-s8"), 256);
  EXPECT_EQ(step("int4-asym-g32-h256"), 256);
  EXPECT_EQ(step("int4-asym-g16-bsr"), 16);
}

TEST(ColumnSlice, RefusesWhatMixesInputs) {
  for (const char* scheme : {"int4-asym-g128-order", "int4-sym-g128-a4g128-tail128",
                             "int4-sym-row-hrow", "trellis4-row"}) {
    EXPECT_FALSE(column_cuts(parse_scheme(scheme), kInputs).refusal.empty()) << scheme;
  }
  EXPECT_THROW((void)columns_of(weight_of("int4-sym-row-hrow"), 0, 256), core::Error);
}

TEST(ColumnSlice, RefusesOtherPlaces) {
  const PackedWeight weight = weight_of("int4-sym-g32");
  EXPECT_THROW((void)columns_of(weight, 16, 64), core::Error);
  EXPECT_THROW((void)columns_of(weight, 0, 48), core::Error);
  EXPECT_THROW((void)columns_of(weight, 0, kInputs + 32), core::Error);
  EXPECT_THROW((void)columns_of(weight, 32, 32), core::Error);
}

}  // namespace
}  // namespace nibble::formats
