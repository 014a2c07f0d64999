#include "ops/cuda/trellis/trellis_packer.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cuda/sparse/tile_units.h"
#include "ops/cuda/trellis/trellis_weights_for_tests.h"

// The layout, read back as a warp reads it: lane by lane, with the functions of the kernels.
namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

/// The values of a unit before their scales: [16 rows of the tile][64 inputs].
template <int kBits>
std::vector<int> read_unit(const std::uint32_t* unit) {
  std::array<std::array<std::uint32_t, kBits>, kTrellisLanes> words{};
  for (int lane = 0; lane < kTrellisLanes; ++lane) {
    for (int i = 0; i < kBits; ++i) {
      words[static_cast<std::size_t>(lane)][static_cast<std::size_t>(i)] =
          unit[trellis_word_at(kBits, lane, i)];
    }
  }
  std::vector<int> values(std::size_t{kTrellisRows} * kTrellisUnitInputs);
  for (int lane = 0; lane < kTrellisLanes; ++lane) {
    const auto& own = words[static_cast<std::size_t>(lane)];
    const auto& next = words[static_cast<std::size_t>(next_along_circle(lane))];
    for (int run = 0; run < kUnitRuns; ++run) {
      const auto window =
          LaneWindow<kBits>::of(own.data(), run, head_bits<kBits>(next.data(), run / 2));
      for (int i = 0; i < kLaneWeights; ++i) {
        // Rows g and g + 8 of the product have four inputs each, from 4 t on.
        const int row = trellis_row(lane / 4 + i / 4 * (kTrellisRows / 2));
        const int input = run * kTrellisInputs + lane % 4 * 4 + i % 4;
        values[static_cast<std::size_t>(row * kTrellisUnitInputs + input)] =
            formats::trellis_value(static_cast<std::uint16_t>(window.state(i)));
      }
    }
  }
  return values;
}

std::vector<int> read_unit(int bits, const std::uint32_t* unit) {
  return bits == 2 ? read_unit<2>(unit) : bits == 3 ? read_unit<3>(unit) : read_unit<4>(unit);
}

/// Whether each row has the values and the scale of its weight.
void expect_rows(const UnitRows& rows, const PackedTrellis& packed) {
  const int units = trellis_units(packed.k);
  for (int tile = 0; tile < packed.n / kTrellisRows; ++tile) {
    const TileRows first = tile_rows(tile, rows.pairs);
    for (int unit = 0; unit < units; ++unit) {
      const std::vector<int> values =
          read_unit(packed.bits, packed.words.data() +
                                     std::size_t{static_cast<unsigned>(tile * units + unit)} *
                                         static_cast<unsigned>(trellis_unit_words(packed.bits)));
      for (int at = 0; at < kTrellisRows; ++at) {
        const std::int64_t row = at < 8 ? first.first + at : first.ninth + at - 8;
        const UnitRows::Place place = rows.place(row);
        const PackedWeight& weight = *rows.weights[place.weight];
        std::vector<float> expected(static_cast<std::size_t>(weight.k));
        formats::decode_unscaled(weight, place.row, expected);
        for (std::int64_t i = 0; i < kTrellisUnitInputs; ++i) {
          const std::int64_t input = unit * kTrellisUnitInputs + i;
          if (input < weight.k) {
            ASSERT_EQ(
                static_cast<float>(values[static_cast<std::size_t>(at * kTrellisUnitInputs + i)]),
                expected[static_cast<std::size_t>(input)])
                << packed.bits << " bits, row " << row << ", input " << input;
          }
        }
        float scale = 0;
        formats::unpack_scales(weight, place.row, {&scale, 1});
        ASSERT_EQ(packed.scales[static_cast<std::size_t>(row)], scale) << row;
      }
    }
  }
}

constexpr const char* kSchemes[] = {"trellis4-row", "trellis3-row", "trellis2-row"};

TEST(TrellisPacker, LanesReadEachWeightOfRaggedShapes) {
  core::ThreadPool pool(2);
  std::uint64_t seed = 0;
  for (const char* scheme : kSchemes) {
    for (const auto& [n, k] : {std::pair{16, 16}, {16, 64}, {48, 80}, {32, 176}, {80, 272}}) {
      const PackedWeight weight = random_trellis(scheme, n, k, ++seed);
      const UnitRows rows{{&weight}, false};
      const PackedTrellis packed = pack_trellis(rows, pool);
      EXPECT_EQ(packed.n, n);
      EXPECT_EQ(packed.k, k);
      expect_rows(rows, packed);
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

TEST(TrellisPacker, WeightsStandBehindOneAnotherOrInPairs) {
  core::ThreadPool pool(1);
  for (const char* scheme : kSchemes) {
    const PackedWeight a = random_trellis(scheme, 48, 96, 1);
    const PackedWeight b = random_trellis(scheme, 48, 96, 2);
    for (const bool pairs : {false, true}) {
      const UnitRows rows{{&a, &b}, pairs};
      expect_rows(rows, pack_trellis(rows, pool));
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

TEST(TrellisPacker, EachLaneHasTheNextAlongTheCircle) {
  std::array<bool, kTrellisLanes> seen{};
  int lane = 0;
  for (int i = 0; i < kTrellisLanes; ++i) {
    EXPECT_EQ(circle_place(lane), i);
    seen[static_cast<std::size_t>(lane)] = true;
    lane = next_along_circle(lane);
  }
  EXPECT_EQ(lane, 0);
  for (const bool each : seen) {
    EXPECT_TRUE(each);
  }
}

TEST(TrellisPacker, SaysWhatItRefuses) {
  EXPECT_FALSE(trellis_refusal(formats::parse_scheme("trellis3-row-hrow")));
  EXPECT_EQ(trellis_refusal(formats::parse_scheme("int4-sym-row"))->text(),
            "weights are no trellis codes");
  core::ThreadPool pool(1);
  const PackedWeight weight = random_trellis("trellis4-row-a8", 16, 16, 1);
  try {
    pack_trellis({{&weight}, false}, pool);
    ADD_FAILURE() << "was taken";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "trellis4-row-a8 on a GPU: trellis codes meet activations that are not rounded; "
                 "use --device cpu");
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
