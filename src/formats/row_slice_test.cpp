#include "formats/row_slice.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random_values_for_tests.h"
#include "formats/cut_weights_for_tests.h"
#include "formats/format.h"

namespace nibble::formats {
namespace {

constexpr std::int64_t kRows = 21;
constexpr std::int64_t kInputs = 96;  // whole groups of 16 and of 32, and a ragged one of 64

// A scheme of each way to store something: axes and parts as scheme.h lists them.
constexpr const char* kSchemes[] = {"f32",
                                    "f16",
                                    "bf16",
                                    "int8-sym-row",
                                    "int8-sym-tensor",
                                    "int4-sym-g32",
                                    "int4-asym-g64",
                                    "int3-asym-g32",
                                    "int2-sym-g32",
                                    "int4-asym-g32-s7",
                                    "lut4-nf4-g64",
                                    "lut4-fp4-g64",
                                    "lut4-af4-g64",

                                    "mxfp4",
                                    "nvfp4",
                                    "fp8-row",
                                    "fp8-tensor",
                                    "int8-sym-row-a8s",
                                    "int4-asym-g32-h32",
                                    "int4-sym-row-hrow"};

PackedWeight weight_of(const char* scheme) {
  const std::vector<float> values = core::normal_values(kRows * kInputs, 7);
  return round_to_nearest(values, kRows, kInputs, parse_scheme(scheme));
}

// In a stored order, with 16 inputs in INT8 behind it, whose codes tell row and place.
PackedWeight weight_with_tail() {
  PackedWeightBuilder builder(parse_scheme("int4-sym-g16-a4g16-tail16"), kRows, kInputs);
  std::vector<std::int32_t> order(kInputs);
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  builder.set_permutation(order);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t group = 0; group < 5; ++group) {
      builder.set_group(row, group, {0.5f + static_cast<float>(row + group), 8});
    }
    builder.set_group(row, 5, {0.25f * static_cast<float>(row + 1), 128});
    std::vector<std::uint8_t> codes(kInputs);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] =
          static_cast<std::uint8_t>((i * 7 + static_cast<std::size_t>(row)) % (i < 80 ? 16 : 256));
    }
    builder.set_codes(row, codes);
  }
  return builder.finish();
}

void expect_rows_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end) {
  for (const PackedWeight& slice : {rows_of(weight, begin, end), own_rows_of(weight, begin, end)}) {
    SCOPED_TRACE(to_string(weight.scheme) + " from " + std::to_string(begin));
    validate(slice, "slice");
    ASSERT_EQ(slice.n, end - begin);
    EXPECT_EQ(slice.k, weight.k);
    EXPECT_EQ(slice.scheme, weight.scheme);
    EXPECT_EQ(stored_bytes(slice), stored_bytes(slice.scheme, slice.n, slice.k));
    for (std::int64_t row = 0; row < slice.n; ++row) {
      EXPECT_EQ(decoded(slice, row), decoded(weight, begin + row)) << "row " << row;
    }
  }
}

TEST(RowSlice, DecodesToTheRowsOfTheWhole) {
  std::vector<PackedWeight> weights = {weight_with_tail()};
  for (const char* scheme : kSchemes) {
    weights.push_back(weight_of(scheme));
  }
  for (const char* scheme :
       {"lut4-row-g32", "lut3-row-g64", "lut4-matrix-g32", "lut2-matrix-g64"}) {
    weights.push_back(weight_with_book(scheme, kRows, kInputs));
  }
  for (const char* scheme : {"int4-min-g32", "int8-sym-g16-s8", "int4-min-g32-s8"}) {
    weights.push_back(weight_of_blocks(scheme, kRows, 2 * kSuperGroup));
  }
  for (const PackedWeight& weight : weights) {
    for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {0, kRows}, {0, 16}, {16, kRows}, {5, 6}, {kRows - 1, kRows}}) {
      expect_rows_of(weight, begin, end);
    }
  }
}

TEST(RowSlice, PutsRowsInAnOrder) {
  std::vector<PackedWeight> weights = {weight_with_tail()};
  for (const char* scheme : kSchemes) {
    weights.push_back(weight_of(scheme));
  }
  weights.push_back(weight_with_book("lut4-row-g32", kRows, kInputs));
  weights.push_back(weight_with_book("lut2-matrix-g64", kRows, kInputs));
  weights.push_back(weight_of_blocks("int4-min-g32-s8", kRows, 2 * kSuperGroup));
  const std::vector<std::int64_t> order = {3, 20, 0, 0, 7};
  for (const PackedWeight& weight : weights) {
    SCOPED_TRACE(to_string(weight.scheme));
    ASSERT_TRUE(can_order_rows(weight.scheme));
    const PackedWeight ordered = rows_in_order(weight, order);
    validate(ordered, "ordered");
    ASSERT_EQ(ordered.n, std::ssize(order));
    for (std::int64_t row = 0; row < ordered.n; ++row) {
      EXPECT_EQ(decoded(ordered, row), decoded(weight, order[static_cast<std::size_t>(row)]));
    }
  }
  EXPECT_THROW(rows_in_order(weights.front(), std::vector<std::int64_t>{kRows}), core::Error);
  EXPECT_THROW(rows_in_order(weights.front(), std::vector<std::int64_t>{-1}), core::Error);
}

TEST(RowSlice, LeavesRowsThatAreStoredTogether) {
  for (const char* scheme :
       {"int4-asym-g16-bsr", "int4-asym-g16-s7-bsr", "int4-asym-g16-bsr-t16", "trellis4-row"}) {
    EXPECT_FALSE(can_order_rows(parse_scheme(scheme))) << scheme;
  }
}

TEST(RowSlice, SharesOrCopiesItsBytes) {
  const PackedWeight weight = weight_of("int4-sym-g32");
  EXPECT_EQ(rows_of(weight, 3, 5).codes.raw(), weight.codes.rows(3, 5).raw());
  EXPECT_NE(own_rows_of(weight, 3, 5).codes.raw(), weight.codes.rows(3, 5).raw());
  const std::vector<float> values(64, 1.0f);
  const core::Tensor mapped = core::Tensor::view(core::DType::kF32, {8, 8}, values.data(), nullptr);
  EXPECT_EQ(own_rows_of(mapped, 2, 4).raw(), mapped.rows(2, 4).raw())
      << "of a file only the rows that are read are in memory";
}

TEST(RowSlice, RefusesRowsThatAreNotThere) {
  const PackedWeight weight = weight_of("int4-sym-g32");
  EXPECT_THROW(rows_of(weight, 0, kRows + 1), core::Error);
  EXPECT_THROW(rows_of(weight, -1, 2), core::Error);
  EXPECT_THROW(rows_of(weight, 4, 4), core::Error);
}

}  // namespace
}  // namespace nibble::formats
