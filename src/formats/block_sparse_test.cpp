#include "formats/block_sparse.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/bit_packing.h"
#include "formats/column_slice.h"
#include "formats/cut_weights_for_tests.h"
#include "formats/format.h"
#include "formats/row_slice.h"
#include "formats/sparse_rows_for_tests.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

using core::Tensor;

constexpr const char* kSchemes[] = {
    "int4-asym-g16-bsr",     "int4-sym-g16-bsr",     "int4-asym-g8-bsr",
    "int4-asym-g32-bsr",     "int4-asym-g64-bsr",    "int8-asym-g16-bsr",
    "int3-asym-g16-bsr",     "int2-sym-g8-bsr",      "int8-sym-g64-bsr-a8",
    "int4-asym-g16-bsr-a8s", "int4-asym-g16-s7-bsr", "int3-sym-g8-s7-bsr-a8"};

constexpr const char* kTileSchemes[] = {"int4-asym-g16-bsr-t16",     "int4-sym-g16-bsr-t16",
                                        "int3-asym-g8-bsr-t16",      "int8-asym-g32-bsr-t16-a8",
                                        "int4-asym-g64-bsr-t16-a8s", "int4-asym-g16-s7-bsr-t16"};
constexpr std::int64_t kTile = kPatternTile;

// sparse_values(), for tiles in the place of rows. Each group that a tile keeps is 0 in one of its
// rows.
std::vector<float> tile_values(std::int64_t tiles, std::int64_t k, std::int64_t group) {
  const std::vector<float> pattern = sparse_values(tiles, k, group, 0.6);
  core::Random random(6);
  std::vector<float> w(static_cast<std::size_t>(tiles * kTile * k));
  for (std::int64_t at = 0; at < std::ssize(w); ++at) {
    const std::int64_t row = at / k;
    const float chosen = pattern[static_cast<std::size_t>(row / kTile * k + at % k)];
    const bool is_zero = row % kTile == at % k / group % kTile;
    w[static_cast<std::size_t>(at)] = chosen == 0 || is_zero ? 0.0f : random.normal();
  }
  return w;
}

// Of the scales of so many groups of n rows.
std::int64_t scale_bytes(const Scheme& scheme, std::int64_t groups, std::int64_t n) {
  return scheme.scale.type == ScaleType::kUnits ? (7 * groups + 7) / 8 + n : 2 * groups;
}

// Each way of looking at a weight.
struct Views {
  std::vector<float> values, scales;
  std::vector<std::uint8_t> codes, zeros;
};
Views views_of(const PackedWeight& weight, std::int64_t row) {
  const auto groups = static_cast<std::size_t>(groups_per_row(weight.scheme, weight.k));
  Views views;
  views.values.resize(static_cast<std::size_t>(weight.k));
  views.codes.resize(views.values.size());
  views.scales.resize(groups);
  views.zeros.resize(groups);
  decode_row(weight, row, views.values);
  unpack_codes(weight, row, views.codes);
  unpack_scales(weight, row, views.scales);
  unpack_zeros(weight, row, views.zeros);
  return views;
}

TEST(BlockSparse, HoldsWhatItsGroupsHold) {
  for (const std::string text : kSchemes) {
    const Scheme scheme = parse_scheme(text);
    const std::int64_t group = scheme.scale.group;
    for (const std::int64_t groups : {1, 6, 300}) {  // 300: indices of two bytes
      const std::int64_t k = groups * group;
      const std::vector<float> w = sparse_values(5, k, group, 0.6);
      const PackedWeight full = round_to_nearest(w, 5, k, full_scheme(scheme));
      const PackedWeight sparse = round_to_nearest(w, 5, k, scheme);
      EXPECT_EQ(sparse.scheme, scheme);
      EXPECT_EQ(sparse.groups.dim(1), groups > 256 ? 2 : 1);
      std::int64_t kept = 0;
      for (std::int64_t row = 0; row < 5; ++row) {
        const auto [begin, end] = stored_groups_of(sparse, row);
        EXPECT_EQ(begin, kept);
        kept = end;
        EXPECT_TRUE(row != 1 || begin == end) << "an empty row";
        EXPECT_TRUE(row != 2 || end - begin == groups) << "a row with all groups";
        const Views expected = views_of(full, row);
        const Views got = views_of(sparse, row);
        EXPECT_EQ(got.values, expected.values) << text << " row " << row;
        for (std::int64_t at = begin; at < end; ++at) {
          const auto g = static_cast<std::size_t>(stored_group(sparse, at));
          EXPECT_EQ(got.scales[g], expected.scales[g]);
          EXPECT_EQ(got.zeros[g], expected.zeros[g]);
          EXPECT_EQ(core::to_float(stored_scale(sparse, at, row)), expected.scales[g]);
        }
      }
      EXPECT_EQ(kept, stored_group_count(sparse));
      EXPECT_EQ(stored_bytes(sparse) * 8,
                kept * (group * scheme.code.bits + 8 * sparse.groups.dim(1)) +
                    8 * scale_bytes(scheme, kept, 5) + 6 * 32 +
                    (has_zeros(scheme) ? (kept * scheme.code.bits + 7) / 8 * 8 : 0) +
                    (scheme.activation.stored_scale ? 32 : 0));
      EXPECT_LE(stored_bytes(sparse), stored_bytes(scheme, 5, k));
    }
  }
}

TEST(TilePattern, HoldsWhatItsGroupsHold) {
  for (const std::string text : kTileSchemes) {
    const Scheme scheme = parse_scheme(text);
    EXPECT_EQ(to_string(scheme), text);
    const std::int64_t group = scheme.scale.group;
    for (const std::int64_t groups : {1, 6, 300}) {
      const std::int64_t k = groups * group;
      const std::int64_t n = 5 * kTile;
      const std::vector<float> w = tile_values(5, k, group);
      const PackedWeight full = round_to_nearest(w, n, k, full_scheme(scheme));
      const PackedWeight sparse = round_to_nearest(w, n, k, scheme);
      EXPECT_EQ(sparse.scheme, scheme);
      const PackedWeight rows = with_row_pattern(sparse);
      validate(rows, "rows");
      EXPECT_FALSE(has_tile_pattern(rows.scheme));
      for (std::int64_t row = 0; row < n; ++row) {
        const Views expected = views_of(full, row);
        for (const PackedWeight* const weight : {&sparse, &rows}) {
          const Views got = views_of(*weight, row);
          EXPECT_EQ(got.values, expected.values) << text << " row " << row;
          const auto [begin, end] = stored_groups_of(*weight, row);
          EXPECT_TRUE(row / kTile != 1 || begin == end) << "an empty tile";
          for (std::int64_t at = begin; at < end; ++at) {
            const auto g = static_cast<std::size_t>(stored_group(*weight, at));
            EXPECT_EQ(got.scales[g], expected.scales[g]);
            EXPECT_EQ(got.zeros[g], expected.zeros[g]);
          }
        }
      }
      const std::int64_t kept = stored_group_count(sparse);
      EXPECT_EQ(stored_group_count(rows), kTile * kept);
      EXPECT_EQ(stored_bytes(sparse) * 8,
                kept * (kTile * group * scheme.code.bits + 8 * sparse.groups.dim(1)) +
                    8 * scale_bytes(scheme, kept * kTile, n) + 6 * 32 +
                    (has_zeros(scheme) ? (kept * kTile * scheme.code.bits + 7) / 8 * 8 : 0) +
                    (scheme.activation.stored_scale ? 32 : 0));
      EXPECT_LE(stored_bytes(sparse), stored_bytes(scheme, n, k));
    }
  }
}

// The drawing of block_sparse.h: a tile that keeps groups 0 and 2, and one that keeps group 1.
TEST(TilePattern, LiesInMemoryAsTheDrawingSays) {
  constexpr std::int64_t kInputs = 24;
  std::vector<float> w(static_cast<std::size_t>(2 * kTile * kInputs), 0.0f);
  for (std::int64_t row = 0; row < kTile; ++row) {
    float* const values = w.data() + row * kInputs;
    values[0] = values[16] = -8.0f;  // scale 1: codes are weights + 8
    values[1] = static_cast<float>(row % 8);
    values[17] = -static_cast<float>(row % 8);
  }
  w[static_cast<std::size_t>(20 * kInputs + 8)] = -16.0f;
  const PackedWeight weight =
      round_to_nearest(w, 2 * kTile, kInputs, parse_scheme("int4-sym-g8-bsr-t16"));
  const auto ends = weight.row_index.data<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(ends.begin(), ends.end()),
            (std::vector<std::int32_t>{0, 2, 3}));
  const auto groups = weight.groups.data<std::uint8_t>();
  EXPECT_EQ(std::vector<std::uint8_t>(groups.begin(), groups.end()),
            (std::vector<std::uint8_t>{0, 2, 1}));
  EXPECT_EQ(weight.codes.shape(), (core::Shape{3 * kTile, 4}));
  EXPECT_EQ(weight.scales.shape(), (core::Shape{1, 3 * kTile}));
  const auto codes = weight.codes.data<std::uint8_t>();
  for (std::size_t row = 0; row < 16; ++row) {
    EXPECT_EQ(codes[4 * row], (8 + row % 8) << 4) << "group 0, row " << row;
    EXPECT_EQ(codes[4 * (16 + row)], (8 - row % 8) << 4) << "group 2, row " << row;
    EXPECT_EQ(codes[4 * (32 + row)], row == 4 ? 0x80 : 0x88) << "group 1, row " << row;
  }
  EXPECT_EQ(core::to_float(weight.scales.data<core::Fp16>()[36]), 2.0f);
}

TEST(TilePattern, NeedsWholeTiles) {
  const Scheme scheme = parse_scheme("int4-asym-g16-bsr-t16");
  require_shape(scheme, 48, 32);
  EXPECT_THROW(require_shape(scheme, 40, 32), core::Error);
  EXPECT_THROW(require_shape(scheme, 48, 40), core::Error);
  for (const char* const text :
       {"int4-asym-g16-t16", "int4-asym-g16-bsr-t8", "int4-asym-g16-bsr-t1", "int4-asym-g16-bsr-t",
        "int4-asym-g16-t16-bsr", "f16-t16"}) {
    EXPECT_THROW((void)parse_scheme(text), core::Error) << text;
  }
  const PackedWeight weight = round_to_nearest(tile_values(3, 96, 16), 3 * kTile, 96, scheme);
  EXPECT_THROW((void)rows_of(weight, 8, 24), core::Error);
  EXPECT_THROW((void)rows_of(weight, 0, 40), core::Error);
}

TEST(TilePattern, IsDividedByOutputsAndInputs) {
  for (const std::string text : kTileSchemes) {
    const Scheme scheme = parse_scheme(text);
    const std::int64_t group = scheme.scale.group;
    constexpr std::int64_t kGroups = 300;
    const std::int64_t k = kGroups * group;
    const PackedWeight weight = round_to_nearest(tile_values(4, k, group), 4 * kTile, k, scheme);
    for (const auto& [begin, end] : {std::pair{0, 4}, {1, 2}, {2, 4}}) {
      const PackedWeight slice = rows_of(weight, begin * kTile, end * kTile);
      validate(slice, "slice");
      for (std::int64_t row = 0; row < slice.n; ++row) {
        EXPECT_EQ(decoded(slice, row), decoded(weight, begin * kTile + row)) << text << row;
      }
    }
    for (const auto& [first, last] : {std::pair{0, 2}, {2, 180}, {180, 300}}) {
      const PackedWeight slice = columns_of(weight, first * group, last * group);
      validate(slice, "slice");
      for (std::int64_t row = 0; row < slice.n; ++row) {
        const std::vector<float> whole = decoded(weight, row);
        EXPECT_EQ(decoded(slice, row),
                  std::vector<float>(whole.begin() + first * group, whole.begin() + last * group))
            << text << row;
      }
    }
  }
}

// Two rows of three groups of 8; the second group of the first row and all of the second go.
TEST(BlockSparse, LiesInMemoryAsTheDrawingSays) {
  std::vector<float> w(48, 0.0f);
  for (std::size_t i = 0; i < 8; ++i) {
    w[i] = static_cast<float>(i) - 7.0f;           // codes 8 .. 15 - 7, zero 15: -7 .. 0
    w[16 + i] = 2.0f * static_cast<float>(i) + 1;  // 1 .. 15, zero 0
  }
  w[15] = 0;
  const PackedWeight weight = round_to_nearest(w, 2, 24, parse_scheme("int4-asym-g8-bsr"));
  const auto ends = weight.row_index.data<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(ends.begin(), ends.end()),
            (std::vector<std::int32_t>{0, 2, 2}));
  const auto groups = weight.groups.data<std::uint8_t>();
  EXPECT_EQ(std::vector<std::uint8_t>(groups.begin(), groups.end()),
            (std::vector<std::uint8_t>{0, 2}));
  const auto codes = weight.codes.data<std::uint8_t>();
  EXPECT_EQ(std::vector<std::uint8_t>(codes.begin() + 4, codes.end()),
            (std::vector<std::uint8_t>{0x31, 0x75, 0xb9, 0xfd}));
  const auto zeros = weight.zeros.data<std::uint8_t>();
  EXPECT_EQ(std::vector<std::uint8_t>(zeros.begin(), zeros.end()),
            (std::vector<std::uint8_t>{0x0f}));
  EXPECT_EQ(core::to_float(weight.scales.data<core::Fp16>()[1]), 1.0f);
  EXPECT_EQ(stored_bytes(weight), 3 * 4 + 2 + 8 + 1 + 4);
}

TEST(BlockSparse, KeepsOneGroupOfAMatrixOfZeros) {
  const std::vector<float> w(64, 0.0f);
  const PackedWeight weight = round_to_nearest(w, 2, 32, parse_scheme("int4-asym-g16-bsr"));
  EXPECT_EQ(stored_group_count(weight), 1);
  std::vector<float> row(32, 1.0f);
  decode_row(weight, 0, row);
  EXPECT_EQ(row, std::vector<float>(32, 0.0f));
}

TEST(BlockSparse, NeedsWholeGroups) {
  const Scheme scheme = parse_scheme("int4-asym-g16-bsr");
  EXPECT_THROW(require_shape(scheme, 4, 40), core::Error);
  EXPECT_THROW(require_shape(scheme, 4, 16 * 65537), core::Error) << "an index of three bytes";
  require_shape(scheme, 4, 16 * 65536);
  EXPECT_THROW(require_shape(scheme, 1 << 16, 16 * 65536), core::Error) << "2^32 groups";
}

TEST(BlockSparse, IsDividedByOutputsAndInputs) {
  for (const std::string text : kSchemes) {
    const Scheme scheme = parse_scheme(text);
    for (const std::int64_t groups : {6, 300}) {
      SCOPED_TRACE(text + " of " + std::to_string(groups));
      const std::int64_t k = groups * scheme.scale.group;
      expect_parts_hold_the_whole(
          round_to_nearest(sparse_values(5, k, scheme.scale.group, 0.5), 5, k, scheme));
    }
  }
}

class DamagedBlockSparse : public ::testing::Test {
 protected:
  // The message of the refusal of a damaged weight; empty when it is accepted.
  static std::string refusal(const std::function<void(PackedWeight&)>& damage,
                             std::int64_t groups = 6) {
    const std::int64_t k = 16 * groups;
    return refusal_of(
        round_to_nearest(sparse_values(4, k, 16, 0.5), 4, k, parse_scheme("int4-asym-g16-bsr")),
        damage);
  }
  static std::string tile_refusal(const std::function<void(PackedWeight&)>& damage) {
    return refusal_of(round_to_nearest(tile_values(4, 96, 16), 4 * kTile, 96,
                                       parse_scheme("int4-asym-g16-bsr-t16")),
                      damage);
  }
};

TEST_F(DamagedBlockSparse, IsRefused) {
  expect_wrong_indices_are_refused(refusal, "codes");
}

TEST_F(DamagedBlockSparse, IsRefusedForScalesOf7BitsThatAre0) {
  const auto short_refusal = [](const std::function<void(PackedWeight&)>& damage) {
    return refusal_of(round_to_nearest(sparse_values(4, 96, 16, 0.5), 4, 96,
                                       parse_scheme("int4-asym-g16-s7-bsr")),
                      damage);
  };
  EXPECT_EQ(short_refusal([](PackedWeight&) {}), "");
  EXPECT_TRUE(
      names(short_refusal([](PackedWeight& w) { w.units.mutable_data<std::uint8_t>()[3] = 0; }),
            "units: row 3"));
  EXPECT_TRUE(
      names(short_refusal([](PackedWeight& w) { w.units.mutable_data<std::uint8_t>()[1] = 201; }),
            "units: row 1"));
  EXPECT_TRUE(names(short_refusal([](PackedWeight& w) {
                      set_code(w.scales.mutable_data<std::uint8_t>(), 7, 2, 64);
                    }),
                    "scales: row 0, group 2"));
  EXPECT_NE(short_refusal([](PackedWeight& w) { w.units = Tensor(); }), "");
  EXPECT_NE(short_refusal([](PackedWeight& w) {
              w.scales = Tensor::zeros(core::DType::kF16, {1, stored_group_count(w)});
            }),
            "");
}

TEST_F(DamagedBlockSparse, IsRefusedWithAPatternOfTiles) {
  EXPECT_EQ(tile_refusal([](PackedWeight&) {}), "");
  EXPECT_TRUE(names(tile_refusal([](PackedWeight& w) { row_end(w, 2) = 0; }), "row_index: tile 1"));
  EXPECT_TRUE(names(tile_refusal([](PackedWeight& w) { row_end(w, 1) = 7; }), "row_index: tile 0"));
  EXPECT_TRUE(names(tile_refusal([](PackedWeight& w) { row_end(w, 4) -= 1; }), "codes"))
      << "fewer groups than parts have";
  EXPECT_TRUE(names(tile_refusal([](PackedWeight& w) { group(w, 0) = 6; }), "groups: row 0"));
  EXPECT_TRUE(
      names(tile_refusal([](PackedWeight& w) { group(w, 1) = group(w, 0); }), "groups: row 0"));
  EXPECT_TRUE(names(tile_refusal([](PackedWeight& w) {
                      w = with_row_pattern(w);
                      w.scheme.sparsity = Sparsity::kTileGroups;
                    }),
                    "row_index"))
      << "parts of the other pattern";
  EXPECT_NE(tile_refusal([](PackedWeight& w) { w.n -= 8; }), "") << "rows behind the last tile";
  for (Tensor PackedWeight::*part :
       {&PackedWeight::codes, &PackedWeight::scales, &PackedWeight::zeros, &PackedWeight::groups}) {
    EXPECT_NE(
        tile_refusal([&](PackedWeight& w) {
          w.*part = Tensor::zeros((w.*part).dtype(), {(w.*part).dim(0) + 1, (w.*part).dim(1)});
        }),
        "")
        << "unequal counts";
  }
}

TEST_F(DamagedBlockSparse, IsRefusedForPartsOfAnotherShape) {
  for (Tensor PackedWeight::*part :
       {&PackedWeight::codes, &PackedWeight::scales, &PackedWeight::zeros, &PackedWeight::groups,
        &PackedWeight::row_index}) {
    EXPECT_NE(refusal([&](PackedWeight& w) { w.*part = Tensor(); }), "");
    EXPECT_NE(
        refusal([&](PackedWeight& w) {
          w.*part = Tensor::zeros((w.*part).dtype(), {(w.*part).dim(0), (w.*part).dim(1) + 1});
        }),
        "");
  }
  EXPECT_TRUE(names(refusal([](PackedWeight& w) {
                      w.row_index = Tensor::zeros(core::DType::kI64, {1, 5});
                    }),
                    "row_index"));
  EXPECT_TRUE(names(refusal([](PackedWeight& w) {
                      w.permutation = Tensor::zeros(core::DType::kI32, {1, 96});
                    }),
                    "permutation"));
  EXPECT_TRUE(names(
      refusal([](PackedWeight& w) { w.scales.mutable_data<core::Fp16>()[3] = core::Fp16{0x7c00}; }),
      "scales"));
}

}  // namespace
}  // namespace nibble::formats
