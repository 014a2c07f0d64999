#include "formats/int/int_format.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/float16.h"
#include "formats/fp16_scale.h"

namespace nibble::formats {
namespace {

std::unique_ptr<const Format> format_of(const std::string& scheme) {
  return make_format(parse_scheme(scheme));
}

std::vector<float> round_trip(const Format& format, const std::vector<float>& group) {
  const GroupParameters parameters = format.fit(group);
  std::vector<float> values;
  for (const float weight : group) {
    values.push_back(format.decode(format.encode(weight, parameters), parameters));
  }
  return values;
}

TEST(RoundScale, RoundsLikeFp16AndStaysInRange) {
  for (const float value : {1.0f, 0.1f, 1.0f / 3.0f, 65503.9f, 6.1e-5f, 1e-6f, 6e-8f}) {
    EXPECT_EQ(round_scale(value), core::to_float(core::to_fp16(value))) << value;
    EXPECT_EQ(round_scale(-value), -round_scale(value));
  }
  EXPECT_EQ(round_scale(0.0), 0x1p-24f);
  EXPECT_EQ(round_scale(1e-9), 0x1p-24f);
  EXPECT_EQ(round_scale(-1e-9), -0x1p-24f);
  EXPECT_EQ(round_scale(65519.0), 65504.0f);
  EXPECT_EQ(round_scale(1e300), 65504.0f);
  // A double just above the tie between 1 and 1 + 2^-10, that float32 would round onto the tie.
  EXPECT_EQ(round_scale(1 + 0x1p-11 + 0x1p-30), 1 + 0x1p-10f);
}

TEST(RoundScale, DecidesTheTiesOfAllFp16Values) {
  const auto value = [](int bits) {
    return double{core::to_float(core::Fp16{static_cast<std::uint16_t>(bits)})};
  };
  for (int bits = 1; bits < 0x7bff; ++bits) {  // from the smallest to the last but one
    const double low = value(bits);
    const double high = value(bits + 1);
    const double tie = (low + high) / 2;
    ASSERT_EQ(round_scale(low), low);
    ASSERT_EQ(round_scale(tie), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(round_scale(std::nextafter(tie, 0.0)), low) << bits;
    ASSERT_EQ(round_scale(std::nextafter(tie, 1e9)), high) << bits;
  }
}

TEST(IntSymmetric, TheExtremeBecomesTheCodeThatHasNoOpposite) {
  const auto format = format_of("int4-sym-g4");
  const GroupParameters positive = format->fit(std::vector<float>{1, 8, -7, 0});
  EXPECT_EQ(positive.scale, -1.0f);  // +8 is -8 steps of -1
  EXPECT_EQ(positive.zero, 8);
  EXPECT_EQ(format->encode(8, positive), 0);
  EXPECT_EQ(format->encode(-7, positive), 15);
  const GroupParameters negative = format->fit(std::vector<float>{1, 7, -8, 0});
  EXPECT_EQ(negative.scale, 1.0f);
  EXPECT_EQ(format->encode(-8, negative), 0);
}

TEST(IntSymmetric, TheFirstOfEqualExtremesDecides) {
  const auto format = format_of("int4-sym-g4");
  EXPECT_EQ(format->fit(std::vector<float>{1, 8, -8}).scale, -1.0f);
  EXPECT_EQ(format->fit(std::vector<float>{1, -8, 8}).scale, 1.0f);
  EXPECT_EQ(round_trip(*format, {1, -8, 8}), (std::vector<float>{1, -8, 7}));
}

TEST(IntSymmetric, ScalesFollowTheWidth) {
  const std::vector<float> group = {-4, 1};
  EXPECT_EQ(format_of("int2-sym-g2")->fit(group).scale, 2.0f);
  EXPECT_EQ(format_of("int3-sym-g2")->fit(group).scale, 1.0f);
  EXPECT_EQ(format_of("int4-sym-g2")->fit(group).scale, 0.5f);
  EXPECT_EQ(round_trip(*format_of("int2-sym-g2"), {-4, -2, 0, 2, 3}),
            (std::vector<float>{-4, -2, 0, 2, 2}));
}

TEST(Int8Symmetric, UsesAbsmaxOver127AndNoLoneMinimum) {
  const auto format = format_of("int8-sym-row");
  const GroupParameters parameters = format->fit(std::vector<float>{-127, 3, 127});
  EXPECT_EQ(parameters.scale, 1.0f);
  EXPECT_EQ(parameters.zero, 128);
  EXPECT_EQ(format->encode(-127, parameters), 1);
  EXPECT_EQ(format->encode(127, parameters), 255);
  EXPECT_EQ(format->encode(-1000, parameters), 1);  // never code 0
  EXPECT_EQ(format->encode(1000, parameters), 255);
  EXPECT_EQ(format->encode(0, parameters), 128);
}

TEST(IntAsymmetric, TheRangeContainsZeroAndZeroIsExact) {
  const auto format = format_of("int4-asym-g4");
  const GroupParameters positive = format->fit(std::vector<float>{3, 15, 4});  // range [0, 15]
  EXPECT_EQ(positive.scale, 1.0f);
  EXPECT_EQ(positive.zero, 0);
  const GroupParameters negative = format->fit(std::vector<float>{-3, -15, -4});
  EXPECT_EQ(negative.zero, 15);
  const GroupParameters mixed = format->fit(std::vector<float>{-5, 10});
  EXPECT_EQ(mixed.zero, 5);
  EXPECT_EQ(format->decode(format->encode(0, mixed), mixed), 0.0f);
}

TEST(Int, TiesGoToEvenAndNeighboursDoNot) {
  const auto format = format_of("int8-asym-row");
  const GroupParameters parameters{1.0f, 128};
  for (int steps = -100; steps < 100; ++steps) {
    const float tie = static_cast<float>(steps) + 0.5f;
    const int even = steps % 2 == 0 ? steps : steps + 1;
    EXPECT_EQ(format->encode(tie, parameters), even + 128) << tie;
    EXPECT_EQ(format->encode(std::nextafter(tie, -999.0f), parameters), steps + 128) << tie;
    EXPECT_EQ(format->encode(std::nextafter(tie, 999.0f), parameters), steps + 129) << tie;
  }
  EXPECT_EQ(format->encode(-0.0f, parameters), 128);
}

// Products of a tie and a scale with a long significand, whose neighbours are the closest there
// are.
TEST(Int, NeighboursOfATieAreDecidedForEveryScale) {
  const auto format = format_of("int8-asym-row");
  for (std::uint16_t significand = 0; significand < 1024; significand += 3) {
    const float scale =
        core::to_float(core::Fp16{static_cast<std::uint16_t>(0x2c00 + significand)});
    for (int steps = 0; steps < 255; ++steps) {
      const float tie = scale * (static_cast<float>(steps) + 0.5f);  // exact: 20 bits
      ASSERT_EQ(format->encode(tie, {scale, 0}), steps + steps % 2);
      ASSERT_EQ(format->encode(std::nextafter(tie, 0.0f), {scale, 0}), steps);
      ASSERT_EQ(format->encode(std::nextafter(tie, 99.0f), {scale, 0}), steps + 1);
    }
  }
}

TEST(Int, CodesAreChosenWithTheStoredScale) {
  // 1/15 is 0.06665... in fp16; with the unrounded scale 0.8334 would be 12.501 steps.
  const auto format = format_of("int4-asym-g4");
  const GroupParameters parameters = format->fit(std::vector<float>{0, 1});
  EXPECT_EQ(parameters.scale, core::to_float(core::to_fp16(1.0f / 15)));
  const float tie = 12.5f * parameters.scale;
  EXPECT_EQ(format->encode(tie, parameters), 12);
  EXPECT_EQ(format->encode(std::nextafter(tie, 1.0f), parameters), 13);
}

TEST(Int, ScalesNeverVanishOrOverflow) {
  for (const std::string scheme : {"int2-sym-row", "int4-sym-row", "int8-sym-row", "int3-asym-row",
                                   "int4-asym-row", "int8-asym-row"}) {
    const auto format = format_of(scheme);
    const float largest = std::numeric_limits<float>::max();
    for (const float extreme : {0.0f, 1e-40f, 1e-12f, 1e10f, largest}) {
      const std::vector<float> group = {0.0f, extreme, -extreme, -0.0f};
      const GroupParameters parameters = format->fit(group);
      EXPECT_GE(std::abs(parameters.scale), 0x1p-24f);
      EXPECT_LE(std::abs(parameters.scale), 65504.0f);
      EXPECT_EQ(round_scale(parameters.scale), parameters.scale);
      EXPECT_EQ(round_trip(*format, group)[0], 0.0f) << scheme << " " << extreme;
    }
    EXPECT_EQ(round_trip(*format, std::vector<float>(5, 0.0f)), std::vector<float>(5, 0.0f));
  }
}

TEST(Int, RefusesWhatIsNotFinite) {
  for (const std::string scheme : {"int4-sym-row", "int4-asym-row", "int8-sym-row"}) {
    const auto format = format_of(scheme);
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      try {
        (void)format->fit(std::vector<float>{0, bad, 1});
        FAIL();
      } catch (const core::Error& error) {
        EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
        EXPECT_NE(std::string(error.what()).find("weight 1"), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Int, EncodingAnythingGivesACodeInRange) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::string scheme : {"int2-sym-row", "int3-asym-row", "int8-sym-row"}) {
    const auto format = format_of(scheme);
    const int middle = 1 << (format->scheme().code.bits - 1);
    for (const float weight : {std::nanf(""), infinity, -infinity, 3e38f, -3e38f, 1e-45f}) {
      for (const float scale : {0x1p-24f, 1.0f, -1.0f, 65504.0f}) {
        EXPECT_LT(format->encode(weight, {scale, middle}), 2 * middle);
      }
    }
  }
}

}  // namespace
}  // namespace nibble::formats
