#include "formats/super_blocks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random_values_for_tests.h"
#include "formats/gguf_types.h"
#include "formats/packed_weight.h"

namespace nibble::formats {
namespace {

constexpr std::int64_t kOutputs = 5;
constexpr std::int64_t kInputs = 768;

double relative_error(const PackedWeight& weight, const std::vector<float>& w) {
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  double error = 0;
  double all = 0;
  for (std::int64_t n = 0; n < weight.n; ++n) {
    decode_row(weight, n, row);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double value = w[static_cast<std::size_t>(n * weight.k) + i];
      error += (row[i] - value) * (row[i] - value);
      all += value * value;
    }
  }
  return all > 0 ? std::sqrt(error / all) : std::sqrt(error);
}

TEST(SuperBlocks, SchemesThatNoBlockHoldsAreOnlyRead) {
  EXPECT_THROW(make_format(parse_scheme("int4-sym-g32-s8")), core::Error);
}

// Errors of normally distributed weights by the range of each group, measured, and 3 % more.
TEST(BlocksOfGguf, HoldNormalWeightsWithTheErrorOfTheirBits) {
  const std::vector<float> w = core::normal_values(kOutputs * kInputs, 11);
  const std::pair<const char*, double> expected[] = {
      {"q2_k", 0.322},  {"q3_k", 0.155},    {"iq4_xs", 0.0800}, {"mxfp4", 0.1109}, {"q4_0", 0.0860},
      {"q4_k", 0.0807}, {"iq4_nl", 0.0796}, {"q4_1", 0.0777},   {"q5_0", 0.0428},  {"q5_k", 0.0400},
      {"q5_1", 0.0381}, {"q6_k", 0.0187},   {"q8_0", 0.00526}};
  ASSERT_EQ(std::size(expected), rounded_types().size());
  for (const auto& [name, error] : expected) {
    const Scheme scheme = scheme_of_blocks(*find_block_type(name)).value();
    const double found = relative_error(round_to_nearest(w, kOutputs, kInputs, scheme), w);
    EXPECT_LT(found, 1.03 * error) << name;
    EXPECT_GT(found, 0.95 * error) << name;
  }
}

// What a file could not hold would be a wrong number there.
void expect_fits(const PackedWeight& weight, const gguf_blocks::BlockForm& form) {
  const bool centred = is_integer(weight.scheme) && !has_minima(weight.scheme);
  const int shift = centred ? (1 << (weight.scheme.code.bits - 1)) - (1 << (form.bits - 1)) : 0;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.k));
  for (std::int64_t row = 0; row < weight.n; ++row) {
    unpack_codes(weight, row, codes);
    for (const int code : codes) {
      ASSERT_GE(code - shift, 0);
      ASSERT_LT(code - shift, 1 << form.bits);
    }
  }
  if (!has_supers(weight.scheme)) {
    return;
  }
  for (const int multiple : weight.scales.data<std::int8_t>()) {
    ASSERT_NE(multiple, 0);
    ASSERT_GE(multiple, form.least_multiple);
    ASSERT_LE(multiple, form.most_multiple);
  }
  for (std::int64_t i = 0; i < weight.minima.elements(); ++i) {
    const int multiple = weight.minima.data<std::int8_t>()[static_cast<std::size_t>(i)];
    ASSERT_GE(multiple, 0);
    ASSERT_LE(multiple, form.most_multiple);
  }
}

TEST(BlocksOfGguf, TakeAnyFiniteWeights) {
  const std::vector<float> normal = core::normal_values(kOutputs * kInputs, 12);
  const std::function<float(float, std::size_t)> makers[] = {
      [](float, std::size_t) { return 0.0f; },
      [](float, std::size_t) { return 0.75f; },
      [](float x, std::size_t) { return std::abs(x); },
      [](float x, std::size_t) { return -std::abs(x) - 1; },
      [](float x, std::size_t i) { return i % 97 == 0 ? 50 * x : 1e-3f * x; },
      [](float x, std::size_t i) { return i / 32 % 2 == 0 ? x : 0.0f; },
      [](float x, std::size_t) { return 1e-9f * x; },
      [](float x, std::size_t) { return 3e5f * x; },
  };
  for (const auto& [word, scheme, blocks] : rounded_types()) {
    for (std::size_t maker = 0; maker < std::size(makers); ++maker) {
      SCOPED_TRACE(word + " " + std::to_string(maker));
      std::vector<float> w = normal;
      for (std::size_t i = 0; i < w.size(); ++i) {
        w[i] = makers[maker](w[i], i);
      }
      const PackedWeight weight = round_to_nearest(w, kOutputs, kInputs, scheme);
      expect_fits(weight, *blocks->form);
      if (maker == 0) {
        EXPECT_LT(relative_error(weight, w), 1e-3);
      } else if (maker == 1) {  // the middle of codes reaches one step less above 0
        EXPECT_LT(relative_error(weight, w), blocks->form->bits == 2 ? 0.01 : 0.15);
      }
    }
  }
}

// 128 would be stored as -128.
TEST(SuperBlocks, AScaleBeyondTheMultiplesIsRefused) {
  const Scheme scheme = parse_scheme("int6-sym-g16-s8");
  PackedWeightBuilder builder(scheme, 1, 256);
  const std::vector<Super> supers = {{core::to_fp16(0.5f), {}}};
  builder.set_supers(0, supers);
  builder.set_group(0, 0, {-64.0f, 128});
  builder.set_group(0, 1, {63.5f, 128});
  for (const float scale : {64.0f, -64.5f, 0.25f}) {
    EXPECT_THROW(builder.set_group(0, 2, {scale, 128}), core::Error) << scale;
  }
}

TEST(SuperBlocks, TheLargestScaleAndTheLowestMinimumAreReached) {
  const Scheme scheme = parse_scheme("int4-min-g32-s8");
  std::vector<GroupParameters> groups(16);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i] = {0.01f * static_cast<float>(i + 1), 0, -0.1f * static_cast<float>(i % 8)};
  }
  const std::vector<Super> supers = round_to_supers(scheme, groups);
  ASSERT_EQ(supers.size(), 2u);  // 8 groups each
  EXPECT_EQ(groups[7].scale, 63 * core::to_float(supers[0].scale));
  EXPECT_EQ(groups[15].scale, 63 * core::to_float(supers[1].scale));
  EXPECT_EQ(groups[7].minimum, 63 * core::to_float(supers[0].minimum));
  EXPECT_NEAR(groups[7].minimum, -0.7, 1e-3);
  EXPECT_EQ(groups[8].minimum, 0);
  EXPECT_NEAR(groups[0].scale, 0.01, 0.5 * 0.08 / 63);
  const Scheme with_sign = parse_scheme("int6-sym-g16-s8");
  std::vector<GroupParameters> both(16, {0.001f, 128});
  both[3].scale = -0.5f;
  both[4].scale = 0.25f;
  both[5].scale = -1e-6f;
  const std::vector<Super> one = round_to_supers(with_sign, both);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(both[3].scale, -128 * core::to_float(one[0].scale));
  EXPECT_EQ(both[4].scale, 64 * core::to_float(one[0].scale));
  EXPECT_EQ(both[5].scale, -core::to_float(one[0].scale));
}

}  // namespace
}  // namespace nibble::formats
