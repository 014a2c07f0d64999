// Layers whose codes are trained, beside those whose scales alone are.

#include "tune/tuned_layer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/float16.h"
#include "core/random.h"
#include "formats/format.h"
#include "tune/block_layers.h"

namespace nibble::tune {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kInputs = 48;
constexpr LayerRates kRates{1.0f, 1.0f, 0.1f};

std::vector<float> normal(std::int64_t count, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return random.normal(); });
  return values;
}

/// A layer in training, with its parameters.
struct Layer {
  Layer(const char* scheme, Trained trained) {
    linear.name = "layer";
    linear.weight = formats::round_to_nearest(normal(kRows * kInputs, 3), kRows, kInputs,
                                              formats::parse_scheme(scheme));
    tuned = std::make_unique<TunedLayer>(linear, trained, kRates, std::vector<float>(), parameters,
                                         pool);
  }
  Parameter& parameter(const std::string& name) {
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const auto& one) { return one->name == "layer." + name; });
    return **found;
  }
  std::vector<float> values() const {
    const auto all = linear.weight.dense.data<float>();
    return {all.begin(), all.end()};
  }

  core::ThreadPool pool{2};
  ops::Linear linear;
  Parameters parameters;
  std::unique_ptr<TunedLayer> tuned;
};

// With the unit matrix as input, the gradient of the output is that of the values.
TEST(TunedLayer, GivesScalesTheSameGradientsWhereCodesAreTrained) {
  for (const char* scheme :
       {"int4-asym-g16", "int2-sym-g16", "int4-asym-g16-bsr", "int3-sym-row"}) {
    const std::vector<float> gradient = normal(kRows * kInputs, 4);
    Layer codes(scheme, Trained::kCodes);
    codes.parameter("codes").gradient = gradient;
    codes.tuned->pass_back(codes.pool);
    Layer scales(scheme, Trained::kScales);
    std::vector<float> unit(kInputs * kInputs);
    std::vector<float> dy(kInputs * kRows);
    for (std::int64_t k = 0; k < kInputs; ++k) {
      unit[static_cast<std::size_t>(k * kInputs + k)] = 1.0f;
      for (std::int64_t n = 0; n < kRows; ++n) {
        dy[static_cast<std::size_t>(k * kRows + n)] =
            gradient[static_cast<std::size_t>(n * kInputs + k)];
      }
    }
    scales.tuned->add_scale_gradients(unit.data(), dy.data(), kInputs, kRows, scales.pool);
    std::vector<std::string> names = {"log_scales"};
    if (formats::has_zeros(formats::parse_scheme(scheme))) {
      names.emplace_back("zeros");
    }
    for (const std::string& name : names) {
      const auto& found = codes.parameter(name).gradient;
      const auto& expected = scales.parameter(name).gradient;
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 1e-5) << scheme << " " << name << " " << i;
      }
    }
  }
}

// Floats are trained where they are stored, and rounded to float16.
TEST(TunedLayer, TrainsGroupsOfFloats) {
  ops::Linear linear;
  linear.name = "layer";
  std::vector<float> weights = normal(kRows * kInputs, 3);
  std::fill(weights.begin() + 16, weights.begin() + 32, 0.0f);  // a group that is not stored
  linear.weight =
      formats::round_to_nearest(weights, kRows, kInputs, formats::parse_scheme("f16-g16-bsr"));
  const std::vector<float> start = decoded(linear.weight);
  core::ThreadPool pool(2);
  Parameters parameters;
  TunedLayer layer(linear, Trained::kWeights, kRates, {}, parameters, pool);
  ASSERT_EQ(parameters.size(), 1U);
  Parameter& trained = *parameters.front();
  EXPECT_EQ(trained.values, start);
  for (float& value : trained.values) {
    value += 0.3f;
  }
  trained.gradient.assign(trained.values.size(), 2.0f);
  layer.update(pool);
  layer.pass_back(pool);
  const formats::PackedWeight packed = layer.packed(pool);
  formats::validate(packed, "packed");
  const std::vector<float> found = decoded(packed);
  const auto read = linear.weight.dense.data<float>();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool pruned = 16 <= i && i < 32;
    EXPECT_EQ(trained.gradient[i], pruned ? 0.0f : 2.0f) << i;
    EXPECT_EQ(found[i], pruned ? 0.0f : core::to_float(core::to_fp16(trained.values[i]))) << i;
    EXPECT_EQ(found[i], read[i]) << i;
  }
  ops::Linear other = linear;
  other.weight = packed;
  EXPECT_THROW(TunedLayer(other, Trained::kScales, kRates, {}, parameters, pool), core::Error);
}

// A step of a code changes the value by the scale, but not behind the first and the last code.
TEST(TunedLayer, MovesValuesByStepsOfCodes) {
  Layer layer("int3-sym-g16", Trained::kCodes);
  const std::vector<float> start = layer.values();
  Parameter& places = layer.parameter("codes");
  const std::vector<float> codes = places.values;
  std::vector<float> scales;
  for (std::int64_t at = 0; at < layer.tuned->scales().count(); ++at) {
    scales.push_back(layer.tuned->scales().start()[static_cast<std::size_t>(at)].scale);
  }
  for (const float moved : {0.4f, 0.6f, -1.2f}) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      places.values[i] = codes[i] + moved;
    }
    layer.tuned->update(layer.pool);
    places.gradient.assign(codes.size(), 1.0f);
    const std::vector<float> now = layer.values();
    layer.tuned->pass_back(layer.pool);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const float scale = scales[i / 16];
      const float code = std::clamp(codes[i] + std::nearbyint(moved), 0.0f, 7.0f);
      EXPECT_NEAR(now[i] - start[i], scale * (code - codes[i]), 1e-5) << moved << " " << i;
      const bool clipped = code != codes[i] + std::nearbyint(moved);
      EXPECT_EQ(places.gradient[i], clipped ? 0.0f : scale) << moved << " " << i;
    }
    const formats::PackedWeight packed = layer.tuned->packed(layer.pool);
    std::vector<float> row(kInputs);
    for (std::int64_t n = 0; n < kRows; ++n) {
      formats::decode_row(packed, n, row);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), now.begin() + n * kInputs)) << n;
    }
  }
}

}  // namespace
}  // namespace nibble::tune
