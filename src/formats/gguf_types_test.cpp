#include "formats/gguf_types.h"

#include <string>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::formats {
namespace {

TEST(GgufTypes, HaveASchemeAndAWordEach) {
  const std::pair<const char*, const char*> expected[] = {
      {"q2_k", "int2-min-g16-s8"}, {"q3_k", "int3-sym-g16-s8"}, {"iq4_xs", "lut4-iq4-g32-s8"},
      {"mxfp4", "mxfp4"},          {"q4_0", "int4-sym-g32"},    {"q4_k", "int4-min-g32-s8"},
      {"iq4_nl", "lut4-iq4-g32"},  {"q4_1", "int4-min-g32"},    {"q5_0", "int5-sym-g32"},
      {"q5_k", "int5-min-g32-s8"}, {"q5_1", "int5-min-g32"},    {"q6_k", "int6-sym-g16-s8"},
      {"q8_0", "int8-sym-g32"}};
  ASSERT_EQ(rounded_types().size(), std::size(expected));
  double last = 0;
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const RoundedType& type = rounded_types()[i];
    const auto& [word, scheme] = expected[i];
    EXPECT_EQ(type.word, word);
    EXPECT_EQ(to_string(type.scheme), scheme);
    EXPECT_EQ(parse_scheme(scheme), type.scheme);
    EXPECT_EQ(find_block_type(word), type.blocks);
    EXPECT_EQ(block_type_of(type.scheme), type.blocks);
    EXPECT_EQ(scheme_of_blocks(*type.blocks), type.scheme);
    Scheme rounded = type.scheme;
    rounded.activation.bits = 8;
    EXPECT_EQ(block_type_of(rounded), type.blocks);
    const std::int64_t bytes = block_bytes(*type.blocks, 3, 512);
    EXPECT_EQ(bytes, 3 * 512 / type.blocks->block_elements * type.blocks->block_bytes);
    EXPECT_GE(static_cast<double>(bytes), last);
    last = static_cast<double>(bytes);
    EXPECT_EQ(has_supers(type.scheme), type.blocks->block_elements == kSuperGroup);
    EXPECT_EQ(value_bits(type.scheme), type.blocks->form->bits);
  }
}

TEST(GgufTypes, OtherSchemesAndWordsHaveNone) {
  for (const char* other : {"int4-sym-g32-s8", "int4-asym-g32", "int8-min-g16-s8", "int8-min-g32",
                            "int4-sym-g64", "lut4-iq4-g64", "lut4-matrix-g32", "f16"}) {
    EXPECT_EQ(block_type_of(parse_scheme(other)), nullptr) << other;
  }
  EXPECT_EQ(find_block_type("Q4_K"), nullptr);
  EXPECT_EQ(find_block_type("q8_k"), nullptr);
  EXPECT_EQ(find_block_type("f32"), nullptr);
}

TEST(GgufTypes, SayWhatHoldsRowsThatTheirBlocksDoNotDivide) {
  const auto small = [](const char* word) {
    return to_string(small_block_scheme(scheme_of_blocks(*find_block_type(word)).value()));
  };
  EXPECT_EQ(small("q2_k"), "lut4-iq4-g32");
  EXPECT_EQ(small("iq4_xs"), "lut4-iq4-g32");
  EXPECT_EQ(small("q4_k"), "lut4-iq4-g32");
  EXPECT_EQ(small("q5_k"), "int8-sym-g32");
  EXPECT_EQ(small("q6_k"), "int8-sym-g32");
}

TEST(GgufTypes, CodesOfFiveAndSixBitsAreThoseOfBlocks) {
  for (const char* refused : {"int5-sym-g64", "int5-asym-g32", "int6-sym-row", "int5-sym-g32-a8",
                              "int5-sym-g32-bsr", "int6-sym-g32-h32", "int5-sym-g32-s7"}) {
    EXPECT_THROW((void)parse_scheme(refused), core::Error) << refused;
  }
  EXPECT_TRUE(is_of_gguf_alone(parse_scheme("int5-min-g32")));
  EXPECT_TRUE(is_of_gguf_alone(parse_scheme("lut4-iq4-g32")));
  EXPECT_TRUE(is_of_gguf_alone(parse_scheme("int2-min-g16-s8")));
  EXPECT_FALSE(is_of_gguf_alone(parse_scheme("int8-sym-g32")));
  EXPECT_FALSE(is_of_gguf_alone(parse_scheme("mxfp4")));
}

}  // namespace
}  // namespace nibble::formats
