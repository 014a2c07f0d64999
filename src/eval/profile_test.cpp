#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include <gtest/gtest.h>

#include "core/json.h"
#include "eval/activation_profile.h"
#include "eval/weight_profile.h"
#include "formats/format.h"
#include "formats/trellis/trellis_code.h"

namespace nibble::eval {
namespace {

using core::Json;

const std::filesystem::path kRoot = NIBBLE_SOURCE_DIR;

std::int64_t sum(const std::vector<std::int64_t>& counts, std::size_t begin, std::size_t end) {
  std::int64_t total = 0;
  for (std::size_t i = begin; i < end; ++i) {
    total += counts[i];
  }
  return total;
}

TEST(GrowingHistogram, ColumnsMergeAsTheReachGrows) {
  GrowingHistogram histogram;
  for (const float value : {0.0f, 0.75f, -0.75f, -1e-30f}) {
    histogram.add(value);
  }
  EXPECT_EQ(histogram.reach(), 1);
  EXPECT_EQ(histogram.counts()[64], 1);   // 0
  EXPECT_EQ(histogram.counts()[63], 1);   // just below
  EXPECT_EQ(histogram.counts()[112], 1);  // 64 + 0.75 * 64
  EXPECT_EQ(histogram.counts()[16], 1);
  histogram.add(4.0f);  // the reach doubles to 8: columns of 1/8
  histogram.add(-8.0f);
  histogram.add(std::nanf(""));
  histogram.add(std::numeric_limits<float>::infinity());
  EXPECT_EQ(histogram.reach(), 8);
  EXPECT_EQ(histogram.counts()[64], 1);
  EXPECT_EQ(histogram.counts()[63], 1);
  EXPECT_EQ(histogram.counts()[70], 1);  // 0.75 / 0.125
  EXPECT_EQ(histogram.counts()[58], 1);
  EXPECT_EQ(histogram.counts()[96], 1);  // 4
  EXPECT_EQ(histogram.counts()[0], 1);   // -8
  EXPECT_EQ(sum(histogram.counts(), 0, 128), 6);
  EXPECT_EQ(histogram.not_finite(), 2);
}

TEST(WeightProfile, CountsCodesInUnitsOfTheScale) {
  formats::PackedWeightBuilder builder(formats::parse_scheme("int3-asym-g2"), 2, 4);
  for (std::int64_t row = 0; row < 2; ++row) {
    builder.set_group(row, 0, {0.5f, 3});
    builder.set_group(row, 1, {100.0f, 1});
  }
  builder.set_codes(0, std::vector<std::uint8_t>{3, 7, 3, 7});
  builder.set_codes(1, std::vector<std::uint8_t>{0, 3, 3, 0});
  const WeightProfile profile = profile_weights(builder.finish());
  ASSERT_EQ(profile.codes.size(), 8u);
  EXPECT_EQ(profile.codes[3].count, 4);  // 0, 2, 0, 2
  EXPECT_EQ(profile.codes[3].value, 1);
  EXPECT_EQ(profile.codes[7].count, 2);  // 4, 6
  EXPECT_EQ(profile.codes[7].value, 5);
  EXPECT_EQ(profile.codes[0].count, 2);  // -3, -1
  EXPECT_EQ(profile.codes[0].value, -2);
  EXPECT_EQ(profile.codes[1].count, 0);
  EXPECT_DOUBLE_EQ(profile.code_entropy, 1.5);  // shares 1/2, 1/4, 1/4
  EXPECT_EQ(profile.histogram.reach(), 8);      // values up to 6, scales left out
}

TEST(WeightProfile, BooksAndDenseWeights) {
  formats::PackedWeightBuilder builder(formats::parse_scheme("lut4-nf4-g4"), 1, 4);
  builder.set_group(0, 0, {2.0f, 0});
  builder.set_codes(0, std::vector<std::uint8_t>{0, 15, 15, 7});
  const WeightProfile coded = profile_weights(builder.finish());
  EXPECT_EQ(coded.codes[15].count, 2);
  EXPECT_EQ(coded.codes[15].value, 1);
  EXPECT_EQ(coded.codes[0].value, -1);
  const std::vector<float> values = {3, -1, 0.5, 0};
  const WeightProfile dense =
      profile_weights(formats::dense_weight(core::Tensor::from<float>(values, {2, 2})));
  EXPECT_TRUE(dense.codes.empty());
  EXPECT_EQ(dense.histogram.reach(), 4);
  EXPECT_EQ(dense.histogram.counts()[64 + 48], 1);  // 3
}

// What pruned groups would decode with counts nowhere.
TEST(WeightProfile, LeavesOutGroupsThatAreNotStored) {
  formats::PackedWeightBuilder builder(formats::parse_scheme("lut2-matrix-g8-bsr"), 1, 24);
  builder.set_book(0, std::vector<float>{-1, 0.5f, 1, 2});
  builder.set_group(0, 1, {2.0f, 0});
  std::vector<std::uint8_t> codes(24, 1);
  codes[9] = 3;
  builder.set_codes(0, codes);
  const WeightProfile profile = profile_weights(builder.finish());
  EXPECT_EQ(profile.codes[0].count, 0);
  EXPECT_EQ(profile.codes[1].count, 7);
  EXPECT_EQ(profile.codes[1].value, 0.5);
  EXPECT_EQ(profile.codes[3].count, 1);
  EXPECT_NEAR(profile.code_entropy, 0.5436, 1e-4);  // shares 7/8, 1/8
}

// The 8-bit values of trellis codes are no codes that are counted.
TEST(WeightProfile, TrellisCodesHaveValuesAlone) {
  const std::vector<std::uint8_t> bytes(32 * 32 / 8 * 4, 0x5a);
  const formats::PackedWeight weight = formats::make_trellis_weight(
      formats::parse_scheme("trellis4-row"), 32, 32, bytes, std::vector<float>(32, 0.5f));
  const WeightProfile profile = profile_weights(weight);
  EXPECT_TRUE(profile.codes.empty());
}

// Against transformers in float32 and NumPy (tests/reference/make_activation_goldens.py).
class Activations : public ::testing::Test {
 protected:
  static Json golden() {
    std::ifstream file(kRoot / "src/eval/goldens/activations.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return core::parse_json(text, "activations.json");
  }
};

TEST_F(Activations, OfTheDemoModelAsInTransformers) {
  const Json expected = golden();
  const auto model = models::open_model(kRoot / "models/demo");
  const auto tokens = expected["tokens"].get<std::vector<std::int32_t>>();
  const ActivationOptions options{expected["window"].get<std::int64_t>(), 0, 1};
  for (const Json& layer : expected["layers"]) {
    const auto name = layer["name"].get<std::string>();
    const ActivationProfile profile =
        profile_activations(*model, name, tokens, options, core::silent_progress());
    EXPECT_EQ(profile.tokens, 96);
    const auto maximum = layer["channel_maximum"].get<std::vector<float>>();
    ASSERT_EQ(profile.channel_maximum.size(), maximum.size());
    for (std::size_t i = 0; i < maximum.size(); ++i) {
      EXPECT_NEAR(profile.channel_maximum[i], maximum[i], 1e-4f * (1 + maximum[i])) << name;
    }
    EXPECT_EQ(outlier_channels(profile, expected["threshold"].get<float>()),
              layer["outliers"].get<std::vector<std::int64_t>>());
    // The golden columns are unions of ours; a value at an edge may fall on either side.
    const auto column = [&](double edge) {
      const double at = 64 + edge * 64 / profile.histogram.reach();
      return static_cast<std::size_t>(std::clamp(at, 0.0, 128.0));
    };
    std::size_t begin = 0;
    for (std::size_t i = 0; i < layer["counts"].size(); ++i) {
      const std::size_t end =
          i < expected["edges"].size() ? column(expected["edges"][i].get<double>()) : 128;
      EXPECT_NEAR(static_cast<double>(sum(profile.histogram.counts(), begin, end)),
                  layer["counts"][i].get<double>(), 2)
          << name << " column " << i;
      begin = end;
    }
  }
}

TEST_F(Activations, RefusesUnknownLayersAndShortTexts) {
  const auto model = models::open_model(kRoot / "models/demo");
  const std::vector<std::int32_t> tokens(10);
  EXPECT_THROW(profile_activations(*model, "lm_head", tokens, {4, 0, 1}, core::silent_progress()),
               core::Error);
  EXPECT_THROW(profile_activations(*model, "model.layers.0.mlp.up_proj", tokens, {4, 3, 1},
                                   core::silent_progress()),
               core::Error);
}

}  // namespace
}  // namespace nibble::eval
