#include "formats/trellis/trellis_code.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/format.h"
#include "formats/packed_weight.h"
#include "formats/row_slice.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

std::vector<std::uint8_t> random_bytes(std::int64_t count, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(random.below(256));
  }
  return bytes;
}

PackedWeight random_weight(const Scheme& scheme, std::int64_t n, std::int64_t k) {
  std::vector<float> scales(static_cast<std::size_t>(n));
  for (std::size_t row = 0; row < scales.size(); ++row) {
    scales[row] = 0.25f + static_cast<float>(row);
  }
  return make_trellis_weight(scheme, n, k, random_bytes(n * k / 8 * scheme.code.bits, 3), scales);
}

// The number below which a share of a normal distribution lies, by halving.
double normal_quantile(double share) {
  double low = -10;
  double high = 10;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return low;
}

// What docs/formats.md says of a weight, bit by bit.
double value_by_bits(const std::vector<std::uint8_t>& run, int bits, std::int64_t place) {
  const std::int64_t circle = 256 * bits;
  std::int64_t state = 0;
  for (int b = 0; b < 16; ++b) {
    const std::int64_t bit = (place * bits + b) % circle;
    state += std::int64_t{(run[static_cast<std::size_t>(bit / 8)] >> (bit % 8)) & 1} << b;
  }
  const auto hash = static_cast<double>(state * 47485 % 65536 / 256);
  const double largest = normal_quantile(255.25 / 255.5);
  return std::round(127 * normal_quantile((hash + 0.25) / 255.5) / largest);
}

TEST(TrellisCode, IsNamedByItsBits) {
  for (const char* text : {"trellis2-row", "trellis3-row", "trellis4-row", "trellis4-row-h128",
                           "trellis3-row-hrow", "trellis4-row-a8"}) {
    EXPECT_EQ(to_string(parse_scheme(text)), text);
    EXPECT_TRUE(has_trellis(parse_scheme(text)));
  }
  for (const char* text : {"trellis5-row", "trellis4", "trellis4-g128", "trellis4-sym-row",
                           "trellis4-row-s7", "trellis4-row-a8g24"}) {
    EXPECT_THROW(parse_scheme(text), core::Error) << text;
  }
}

TEST(TrellisCode, MeansWhatTheBitsOfACircleSay) {
  for (const int bits : {2, 3, 4}) {
    const auto run = random_bytes(run_bytes(bits), 11);
    std::vector<std::uint16_t> states(kRunWeights);
    for (std::int64_t place = 0; place < kRunWeights; ++place) {
      states[static_cast<std::size_t>(place)] = run_state(run, bits, place);
      EXPECT_EQ(trellis_value(states[static_cast<std::size_t>(place)]),
                value_by_bits(run, bits, place))
          << bits << " bits, place " << place;
    }
    std::vector<std::uint8_t> packed(run.size(), 255);
    pack_run(std::span<const std::uint16_t, kRunWeights>(states), bits, packed);
    EXPECT_EQ(packed, run);
  }
}

TEST(TrellisCode, RowsAreThoseOfTheirRuns) {
  constexpr std::int64_t kRows = 48;
  constexpr std::int64_t kInputs = 80;
  for (const char* text : {"trellis2-row", "trellis3-row", "trellis4-row"}) {
    const Scheme scheme = parse_scheme(text);
    const int bits = scheme.code.bits;
    const PackedWeight weight = random_weight(scheme, kRows, kInputs);
    const auto bytes = weight.codes.data<std::uint8_t>();
    std::vector<float> row(kInputs);
    for (std::int64_t i = 0; i < kRows; ++i) {
      decode_row(weight, i, row);
      for (std::int64_t j = 0; j < kInputs; ++j) {
        const auto first = (i / 16 * (kInputs / 16) + j / 16) * 32 * bits;
        const std::vector<std::uint8_t> run(bytes.begin() + first,
                                            bytes.begin() + first + 32 * bits);
        const std::int64_t place = j % 16 / 4 * 64 + i % 16 * 4 + j % 4;
        EXPECT_EQ(
            row[static_cast<std::size_t>(j)],
            (0.25f + static_cast<float>(i)) * static_cast<float>(value_by_bits(run, bits, place)));
      }
    }
  }
}

TEST(TrellisCode, TakesItsBitsAndAScaleForEachRow) {
  const Scheme scheme = parse_scheme("trellis3-row");
  EXPECT_EQ(stored_bytes(scheme, 512, 1408), 512 * 1408 * 3 / 8 + 2 * 512);
  EXPECT_EQ(stored_bytes(random_weight(scheme, 32, 64)), 32 * 64 * 3 / 8 + 2 * 32);
}

TEST(TrellisCode, RefusesShapesThatRunsDoNotFill) {
  const Scheme scheme = parse_scheme("trellis4-row");
  EXPECT_NO_THROW(require_shape(scheme, 16, 48));
  EXPECT_THROW(require_shape(scheme, 24, 48), core::Error);
  EXPECT_THROW(require_shape(scheme, 32, 40), core::Error);
  EXPECT_THROW(PackedWeightBuilder(scheme, 8, 16), core::Error);
}

TEST(TrellisCode, IsNotRoundedOneByOne) {
  const Scheme scheme = parse_scheme("trellis4-row");
  const std::vector<float> weights(256, 0.5f);
  EXPECT_THROW(make_format(scheme), core::Error);
  EXPECT_THROW(round_to_nearest(weights, 16, 16, scheme), core::Error);
  PackedWeightBuilder builder(scheme, 16, 16);
  EXPECT_THROW(builder.set_codes(0, std::vector<std::uint8_t>(16)), core::Error);
  EXPECT_THROW(make_trellis_weight(scheme, 16, 16, random_bytes(64, 1), std::vector<float>(16, 1)),
               core::Error);
}

TEST(TrellisCode, RefusesDamagedFiles) {
  const PackedWeight good = random_weight(parse_scheme("trellis4-row"), 32, 64);
  EXPECT_NO_THROW(validate(good, "layer"));
  const auto refused = [&](auto damage) {
    PackedWeight weight = good;
    damage(weight);
    EXPECT_THROW(validate(weight, "layer"), core::Error);
  };
  refused([](PackedWeight& w) { w.codes = core::Tensor::zeros(core::DType::kU8, {32, 24}); });
  refused([](PackedWeight& w) { w.codes = core::Tensor::zeros(core::DType::kU8, {16, 32}); });
  refused([](PackedWeight& w) { w.codes = core::Tensor(); });
  refused([](PackedWeight& w) { w.scales = core::Tensor::zeros(core::DType::kF16, {32, 4}); });
  refused([](PackedWeight& w) { w.zeros = core::Tensor::zeros(core::DType::kU8, {32, 1}); });
  refused([](PackedWeight& w) {
    w.scales = core::Tensor::zeros(core::DType::kF16, {32, 1});
    w.scales.mutable_data<core::Fp16>()[7] = core::to_fp16(std::numeric_limits<float>::infinity());
  });
  refused([](PackedWeight& w) { w.k = 72; });
}

TEST(TrellisCode, IsSlicedByWholeRuns) {
  const PackedWeight whole = random_weight(parse_scheme("trellis2-row"), 64, 32);
  const PackedWeight part = rows_of(whole, 16, 48);
  std::vector<float> expected(32);
  std::vector<float> row(32);
  for (std::int64_t i = 0; i < part.n; ++i) {
    decode_row(whole, 16 + i, expected);
    decode_row(part, i, row);
    EXPECT_EQ(row, expected);
  }
  EXPECT_THROW(rows_of(whole, 8, 48), core::Error);
}

}  // namespace
}  // namespace nibble::formats
