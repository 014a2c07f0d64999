#include "formats/row_unit.h"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/format.h"
#include "formats/row_unit_format.h"

namespace nibble::formats {
namespace {

TEST(RowUnit, EveryMultipleIsAnFp16Value) {
  for (int unit = 1; unit <= kLargestUnit; ++unit) {
    const float value = unit_value(static_cast<std::uint8_t>(unit));
    EXPECT_GT(value, 0);
    for (int units = 1; units <= kMaxUnits; ++units) {
      const float scale = static_cast<float>(units) * value;
      ASSERT_EQ(core::to_float(core::to_fp16(scale)), scale) << unit << " " << units;
      ASSERT_EQ(units_of(scale, value), units);
      ASSERT_EQ(scale_of_units(units_of(-scale, value), value), -scale);
    }
  }
  EXPECT_EQ(unit_value(kLargestUnit), 1024.0f);
  EXPECT_EQ(unit_value(1), 0x1p-17f);
}

TEST(RowUnit, TheLargestScaleIsReached) {
  core::Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const double largest = std::exp2(20.0 * random.uniform() - 10.0);
    const std::uint8_t unit = unit_for(largest);
    EXPECT_GE(63.0 * static_cast<double>(unit_value(unit)), largest);
    EXPECT_LT(63.0 * static_cast<double>(unit_value(static_cast<std::uint8_t>(unit - 1))), largest);
    EXPECT_NEAR(
        static_cast<double>(scale_of_units(units_of(largest, unit_value(unit)), unit_value(unit))),
        largest, 0.5 * static_cast<double>(unit_value(unit)));
  }
  EXPECT_EQ(unit_for(0.0), 1);
  EXPECT_EQ(unit_for(1e9), kLargestUnit);
  EXPECT_EQ(units_of(0.0, 1.0f), 1);  // never zero
}

TEST(RowUnit, FormatsRoundScalesToMultiples) {
  const Scheme scheme = parse_scheme("lut4-nf4-g32-s7");
  const auto format = make_row_unit_format(make_format(scheme), 100);
  const float unit = unit_value(100);
  EXPECT_EQ(format->stored_scale(10.4 * static_cast<double>(unit)), 10 * unit);
  EXPECT_EQ(format->stored_scale(-10.4 * static_cast<double>(unit)), -10 * unit);
  EXPECT_EQ(format->stored_scale(1e9), 63 * unit);
  const std::vector<float> group = {0.3f * unit, -17.8f * unit};
  const GroupParameters parameters = format->fit(group);
  EXPECT_EQ(parameters.scale, 18 * unit);
}

TEST(RowUnit, BuilderRefusesOtherScales) {
  const Scheme scheme = parse_scheme("int4-sym-g32-s7");
  PackedWeightBuilder builder(scheme, 1, 64);
  EXPECT_THROW(builder.set_group(0, 0, {1.0f, 8}), core::Error);  // no unit yet
  builder.set_unit(0, 120);                                       // 2^0
  ASSERT_EQ(unit_value(120), 1.0f);
  EXPECT_THROW(builder.set_group(0, 0, {1.5f, 8}), core::Error);
  EXPECT_THROW(builder.set_group(0, 0, {64.0f, 8}), core::Error);
  EXPECT_NO_THROW(builder.set_group(0, 0, {-63.0f, 8}));
  EXPECT_THROW(builder.set_unit(0, 0), core::Error);
  EXPECT_THROW(builder.set_unit(0, kLargestUnit + 1), core::Error);
}

// 4 bits, 7 for 32 weights, 8 for a row.
TEST(RowUnit, BitsAreCounted) {
  std::vector<float> w(8 * 512);
  core::Random random(5);
  for (float& value : w) {
    value = random.normal();
  }
  const PackedWeight packed = round_to_nearest(w, 8, 512, parse_scheme("int4-sym-g32-s7"));
  EXPECT_DOUBLE_EQ(bits_per_weight(packed), 4 + 7.0 / 32 + 8.0 / 512);
  // Little is lost beside fp16 scales.
  const auto error = [&](const PackedWeight& weight) {
    double sum = 0;
    std::vector<float> row(512);
    for (std::int64_t i = 0; i < 8; ++i) {
      decode_row(weight, i, row);
      for (std::size_t j = 0; j < 512; ++j) {
        sum += std::pow(w[static_cast<std::size_t>(i) * 512 + j] - row[j], 2);
      }
    }
    return sum;
  };
  EXPECT_LT(error(packed), 1.02 * error(round_to_nearest(w, 8, 512, parse_scheme("int4-sym-g32"))));
}

TEST(RowUnit, DamagedPartsAreRefused) {
  const std::vector<float> w(4 * 64, 0.5f);
  const PackedWeight good = round_to_nearest(w, 4, 64, parse_scheme("int4-sym-g32-s7"));
  EXPECT_NO_THROW(validate(good, "layer"));
  PackedWeight bad = good;
  bad.units = core::Tensor::zeros(core::DType::kU8, {4, 1});
  EXPECT_THROW(validate(bad, "layer"), core::Error);
  bad = good;
  bad.scales = core::Tensor::zeros(core::DType::kU8, {4, 2});
  EXPECT_THROW(validate(bad, "layer"), core::Error);  // a scale of zero units
  bad = good;
  bad.units = core::Tensor();
  EXPECT_THROW(validate(bad, "layer"), core::Error);
}

}  // namespace
}  // namespace nibble::formats
