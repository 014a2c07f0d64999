#include "formats/code_type.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/format.h"
#include "formats/fp4/e2m1_numbers.h"
#include "formats/fp8/fp8_format.h"

namespace nibble::formats {
namespace {

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kInputs = 96;

std::vector<float> random_weights() {
  core::Random random(29);
  std::vector<float> weights(kRows * kInputs);
  for (float& weight : weights) {
    weight = random.normal();
  }
  return weights;
}

TEST(CodeTypes, HaveWordsOfTheirOwn) {
  std::set<std::string_view> words;
  for (const CodeType* const type : code_types()) {
    for (const CodeWord& word : type->words) {
      EXPECT_TRUE(words.insert(word.word).second) << word.word;
    }
  }
  EXPECT_EQ(words.size(), 3u + 6u + 3u + 1u + 3u);
}

TEST(CodeTypes, ShowTheirSchemesInMessages) {
  try {
    parse_scheme("int7-sym-g32");
    ADD_FAILURE() << "was accepted";
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(),
                 "'int7-sym-g32' is not a scheme; examples: f16, int4-asym-g128, int8-sym-row-a8, "
                 "lut4-nf4-g64, fp8-row, trellis4-row, mxfp4, nvfp4");
  }
}

TEST(CodeTypes, SayWhyASchemeIsNone) {
  const auto problem = [](const char* text, void (*change)(Scheme&)) {
    Scheme scheme = parse_scheme(text);
    change(scheme);
    return problem_of(scheme);
  };
  EXPECT_EQ(problem("int4-sym-g128", [](Scheme&) {}), "");
  EXPECT_EQ(problem("int4-sym-g128", [](Scheme& s) { s.code.bits = 5; }),
            "integers have 2, 3, 4 or 8 bits (5 and 6 in GGUF's blocks) and no code book");
  EXPECT_EQ(problem("int8-sym-row",
                    [](Scheme& s) { s.activation = parse_scheme("fp8-row-afp8").activation; }),
            "weights that are integers meet activations that are floats or integers, not E4M3 "
            "numbers");
  EXPECT_EQ(problem("int8-sym-row-a8", [](Scheme& s) { s.activation.type = &kBookCodes; }),
            "activations have no codes of that type");
  EXPECT_EQ(problem("fp8-row", [](Scheme& s) { s.scale.group = 128; }),
            "E4M3 numbers have a float16 scale for each row, or one for the matrix");
  EXPECT_EQ(problem("fp8-row-afp8", [](Scheme& s) { s.activation.clip = 0.9f; }),
            "E4M3 activations have 8 bits, one scale for each token, no zero points, clipping or "
            "outliers");
  for (void (*change)(Scheme&) : {+[](Scheme& s) { s.activation.symmetric = false; },
                                  +[](Scheme& s) { s.activation.stored_scale = true; },
                                  +[](Scheme& s) { s.activation.bits = 8; }}) {
    EXPECT_EQ(problem("int4-sym-row-afp4", change),
              "E2M1 activations have 4 bits, no zero points, and scales of their own for each "
              "token");
  }
  EXPECT_EQ(problem("int8-sym-row", [](Scheme& s) { s.scale.rows = 128; }),
            "a scale is that of a row, of inputs of a row, or of all rows");
  EXPECT_NE(problem("int8-sym-g32", [](Scheme& s) { s.scale.rows = kAllRows; }), "");
}

TEST(CodeTypes, OfActivationsAreWhatTheArithmeticSees) {
  for (const CodeType* const type : activation_types()) {
    EXPECT_FALSE(type->as_activations.bits.empty()) << type->name;
    ASSERT_NE(type->activations, nullptr) << type->name;
    EXPECT_FALSE(type->activations->is_recoded()) << type->name;
  }
  EXPECT_TRUE(kE2m1Numbers.is_recoded());
  EXPECT_FALSE(kFp8Codes.is_recoded());
  EXPECT_TRUE(parse_activation("a8")->acts_as_integers());
  EXPECT_TRUE(parse_activation("afp4")->acts_as_integers());
  EXPECT_FALSE(parse_activation("afp8")->acts_as_integers());
  EXPECT_FALSE(Activation().acts_as_integers());
}

TEST(CodeTypes, DecodeAsTheirFormatsDo) {
  const std::vector<float> weights = random_weights();
  for (const char* text : {"int2-sym-g32", "int3-asym-g48", "int4-asym-g32", "int8-sym-row",
                           "int8-sym-tensor", "lut4-nf4-g32", "lut4-af4-row", "lut4-fp4-g1",
                           "int4-sym-g32-s7", "fp8-row", "fp8-tensor", "mxfp4"}) {
    const Scheme scheme = parse_scheme(text);
    const auto format = make_format(scheme);
    const PackedWeight weight = round_to_nearest(weights, kRows, kInputs, scheme);
    const std::int64_t groups = groups_per_row(scheme, kInputs);
    std::vector<float> scales(static_cast<std::size_t>(groups));
    std::vector<std::uint8_t> zeros(scales.size());
    std::vector<std::uint8_t> codes(kInputs);
    std::vector<float> values(kInputs);
    std::vector<float> unscaled(kInputs);
    for (std::int64_t row = 0; row < kRows; ++row) {
      unpack_scales(weight, row, scales);
      unpack_zeros(weight, row, zeros);
      unpack_codes(weight, row, codes);
      decode_row(weight, row, values);
      decode_unscaled(weight, row, unscaled);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const auto group = i / static_cast<std::size_t>(group_size(scheme, kInputs));
        const GroupParameters parameters{scales[group], zeros[group]};
        EXPECT_EQ(values[i], format->decode(codes[i], parameters)) << text;
        EXPECT_EQ(unscaled[i], format->decode(codes[i], {1.0f, zeros[group]})) << text;
      }
    }
  }
}

TEST(CodeTypes, WithoutCodesHaveNoFormatAndNoCodes) {
  EXPECT_EQ(kDenseCodes.make_format, nullptr);
  const PackedWeight dense =
      round_to_nearest(random_weights(), kRows, kInputs, parse_scheme("f16"));
  std::vector<float> values(kInputs);
  EXPECT_THROW(decode_unscaled(dense, 0, values), core::Error);
}

TEST(Granularity, IsAWordAndAShape) {
  struct Case {
    const char* word;
    std::int64_t group;
    std::int64_t rows;
    ScaleShape scales;  // of a weight [3, 96]
  };
  for (const auto& [word, group, rows, scales] :
       {Case{"row", 0, 1, {3, 1}}, Case{"g32", 32, 1, {3, 3}}, Case{"g1000", 1000, 1, {3, 1}},
        Case{"tensor", 0, kAllRows, {1, 1}}}) {
    const auto scale = parse_granularity(word);
    ASSERT_TRUE(scale) << word;
    EXPECT_EQ(scale->group, group) << word;
    EXPECT_EQ(scale->rows, rows) << word;
    EXPECT_EQ(granularity_word(*scale), word);
    Scheme scheme = parse_scheme("int8-sym-row");
    scheme.scale = *scale;
    const ScaleShape shape = scale_shape(scheme, kRows, kInputs);
    EXPECT_EQ(shape.rows, scales.rows) << word;
    EXPECT_EQ(shape.groups, scales.groups) << word;
    const PackedWeight weight = round_to_nearest(random_weights(), kRows, kInputs, scheme);
    EXPECT_EQ(weight.scales.shape(), (core::Shape{scales.rows, scales.groups})) << word;
  }
  for (const char* word : {"", "g", "g0", "g032", "rows", "matrix", "tensor "}) {
    EXPECT_FALSE(parse_granularity(word)) << word;
  }
}

}  // namespace
}  // namespace nibble::formats
