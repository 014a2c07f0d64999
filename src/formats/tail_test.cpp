// Weights with a tail: what each part means, and each way in which one can be malformed.

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/format.h"

namespace nibble::formats {
namespace {

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kInputs = 22;  // 16 of the head in groups of 8 and 8; a tail of 6

PackedWeight weight_with_tail() {
  PackedWeightBuilder builder(parse_scheme("int4-sym-g8-a4g8-tail6"), kRows, kInputs);
  std::vector<std::int32_t> order(kInputs);
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  builder.set_permutation(order);
  for (std::int64_t row = 0; row < kRows; ++row) {
    builder.set_group(row, 0, {0.5f, 8});
    builder.set_group(row, 1, {-2.0f, 8});
    builder.set_group(row, 2, {0.25f, 128});
    std::vector<std::uint8_t> codes(kInputs);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<std::uint8_t>(i < 16 ? i : 250 - 40 * (i - 16));
    }
    codes[0] = static_cast<std::uint8_t>(row);
    builder.set_codes(row, codes);
  }
  return builder.finish();
}

std::string refusal(const std::function<void(PackedWeight&)>& damage) {
  PackedWeight weight = weight_with_tail();
  damage(weight);
  try {
    validate(weight, "layer");
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

// An order without a tail: rows are decoded as they are stored, and the order must be one.
TEST(Order, IsStoredBesideTheWeight) {
  PackedWeightBuilder builder(parse_scheme("int4-asym-g4-order"), 1, 8);
  builder.set_group(0, 0, {0.5f, 3});
  builder.set_group(0, 1, {2.0f, 0});
  builder.set_codes(0, std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5, 6, 15});
  const std::vector<std::int32_t> order = {7, 0, 6, 1, 5, 2, 4, 3};
  builder.set_permutation(order);
  const PackedWeight weight = builder.finish();
  std::vector<float> row(8);
  decode_row(weight, 0, row);
  EXPECT_EQ(row, (std::vector<float>{-1.5f, -1, -0.5f, 0, 8, 10, 12, 30}));
  const PackedWeight head = head_of(weight);
  EXPECT_TRUE(head.permutation.empty());
  EXPECT_EQ(to_string(head.scheme), "int4-asym-g4");
  validate(head, "head");

  PackedWeight twice = weight;
  twice.permutation = core::Tensor::zeros(core::DType::kI32, {1, 8});
  EXPECT_THROW(validate(twice, "layer"), core::Error);
  PackedWeight without = weight;
  without.permutation = core::Tensor();
  EXPECT_THROW(validate(without, "layer"), core::Error);
  EXPECT_THROW(round_to_nearest(row, 1, 8, parse_scheme("int4-asym-g4-order")), core::Error);
}

TEST(Tail, DecodesBehindTheHead) {
  const PackedWeight weight = weight_with_tail();
  std::vector<float> row(kInputs);
  decode_row(weight, 1, row);
  const std::vector<float> expected = {-3.5f, -3.5f, -3,    -2.5f, -2,    -1.5f, -1,  -0.5f,
                                       0,     -2,    -4,    -6,    -8,    -10,   -12, -14,
                                       30.5f, 20.5f, 10.5f, 0.5f,  -9.5f, -19.5f};
  EXPECT_EQ(row, expected);
  const PackedWeight head = head_of(weight);
  EXPECT_EQ(head.k, 16);
  EXPECT_EQ(to_string(head.scheme), "int4-sym-g8-a4g8");
  validate(head, "head");
  const PackedWeight tail = tail_of(weight);
  EXPECT_EQ(tail.k, 6);
  EXPECT_EQ(to_string(tail.scheme), "int8-sym-row-a8");
  validate(tail, "tail");
}

TEST(Tail, IsCountedInFull) {
  const PackedWeight weight = weight_with_tail();
  std::vector<std::string> names;
  for (const Part& part : parts(weight)) {
    names.emplace_back(part.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"codes", "scales", "permutation", "tail_codes",
                                             "tail_scales"}));
  // Rows of 8 bytes of codes, 2 scales, 6 tail codes, a tail scale; 22 numbers of the order.
  EXPECT_EQ(stored_bytes(weight), kRows * (8 + 2 * 2 + 6 + 2) + kInputs * 4);
  EXPECT_DOUBLE_EQ(bits_per_weight(weight), 8.0 * (3 * 20 + 88) / (kRows * kInputs));
}

TEST(Tail, HasNoCodesInOnePiece) {
  const PackedWeight weight = weight_with_tail();
  std::vector<std::uint8_t> codes(kInputs);
  EXPECT_THROW(unpack_codes(weight, 0, codes), core::Error);
  EXPECT_THROW((void)round_to_nearest(std::vector<float>(44), 2, 22, weight.scheme), core::Error);
  EXPECT_THROW(PackedWeightBuilder(weight.scheme, 1, 6), core::Error);  // nothing left
}

TEST(Tail, MalformedPartsAreRefused) {
  EXPECT_EQ(refusal([](PackedWeight&) {}), "");
  const auto names = [](const std::string& message, const char* word) {
    return message.find(word) != std::string::npos;
  };
  for (const std::int32_t wrong : {-1, 22, 5}) {
    EXPECT_TRUE(names(
        refusal([&](PackedWeight& w) { w.permutation.mutable_data<std::int32_t>()[3] = wrong; }),
        ".permutation"));
  }
  EXPECT_TRUE(names(refusal([](PackedWeight& w) { w.permutation = {}; }), ".permutation: missing"));
  EXPECT_TRUE(names(refusal([](PackedWeight& w) { w.tail_codes = {}; }), ".tail_codes: missing"));
  EXPECT_TRUE(names(refusal([](PackedWeight& w) { w.tail_scales = {}; }), ".tail_scales: missing"));
  EXPECT_TRUE(names(refusal([](PackedWeight& w) {
                      w.tail_codes = core::Tensor::zeros(core::DType::kU8, {kRows, 5});
                    }),
                    ".tail_codes"));
  EXPECT_TRUE(names(
      refusal([](PackedWeight& w) { w.tail_scales.mutable_data<core::Fp16>()[2].bits = 0x7c00; }),
      "(tail)"));
  EXPECT_TRUE(names(refusal([](PackedWeight& w) {
                      w.permutation = core::Tensor::zeros(core::DType::kI64, {1, kInputs});
                    }),
                    ".permutation"));
  EXPECT_NE(refusal([](PackedWeight& w) { w.scheme.inputs.tail = 0; }), "");
  EXPECT_NE(refusal([](PackedWeight& w) { w.scheme.inputs.tail = 22; }), "");
  EXPECT_NE(refusal([](PackedWeight& w) { w.scheme.inputs.tail = 7; }), "");
}

}  // namespace
}  // namespace nibble::formats
