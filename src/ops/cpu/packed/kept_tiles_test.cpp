// Block-sparse rows whose tiles keep the same groups: every variant that runs here against sums in
// double, and against the scalar one to the last bit.

#include "ops/cpu/packed/kept_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cpu/sparse/sparse_weights_for_tests.h"

namespace nibble::ops::cpu {
namespace {

using formats::PackedWeight;

struct Shape {
  std::int64_t tiles, groups;
};
// An odd number of groups, rows that units do not divide, indices of two bytes.
constexpr Shape kShapes[] = {{1, 1}, {2, 2}, {5, 9}, {12, 24}, {3, 31}, {2, 300}};
constexpr std::int64_t kTokens[] = {1, 2, 3, 7, 17, 40, 75};
constexpr const char* kSchemes[] = {
    "int4-asym-g16-bsr-t16",        "int4-sym-g16-bsr-t16",      "int4-asym-g32-bsr-t16",
    "int4-asym-g64-bsr-t16",        "int4-asym-g8-bsr-t16",      "int8-asym-g16-bsr-t16",
    "int8-sym-g32-bsr-t16",         "int3-asym-g16-bsr-t16",     "int2-asym-g64-bsr-t16",
    "int4-asym-g16-bsr-t16-a8",     "int4-asym-g16-bsr-t16-a8s", "int4-asym-g16-bsr-t16-a4",
    "int8-asym-g64-bsr-t16-a8g128", "int4-asym-g16-s7-bsr-t16"};

/// Tiles keep `share` of the groups. Every third is empty, every fifth has all.
PackedWeight tile_weight(const std::string& text, Shape shape, double share, std::uint64_t seed) {
  const std::int64_t group = formats::parse_scheme(text).scale.group;
  return testing::sparse_weight(text, shape.tiles * kTileRows, shape.groups * group, seed,
                                testing::mixed_share(share, 1));
}

std::vector<Variant> variants_here() {
  std::vector<Variant> here;
  for (const Variant& variant : variants()) {
    if (variant.runs_here()) {
      here.push_back(variant);
    }
  }
  return here;
}

QuantizedInput quantized(const PackedLinear& linear, std::span<const float> x, bool wide,
                         core::ThreadPool& pool) {
  QuantizedInput input;
  InputNeeds needs = linear.needs();
  needs.wide = wide;
  quantize_input(x.data(), std::ssize(x) / linear.k(), linear.k(), linear.k(), needs, input, pool);
  return input;
}

QuantizedInput quantized(const PackedLinear& linear, std::int64_t m, core::ThreadPool& pool,
                         bool wide = false) {
  return quantized(linear, testing::random_input(m, linear.k(), 7), wide, pool);
}

/// y [m, n] in rows with room behind them, which must stay as it was.
std::vector<float> run(const Variant& variant, const PackedLinear& linear,
                       const QuantizedInput& input, core::ThreadPool& pool) {
  constexpr std::int64_t kRoom = 3;
  const std::int64_t ldy = linear.n() + kRoom;
  std::vector<float> wide(static_cast<std::size_t>(input.m() * ldy),
                          std::numeric_limits<float>::quiet_NaN());
  const PackedLinear* const alone = &linear;
  packed_linear(variant, {&alone, 1}, input, wide.data(), ldy, pool);
  std::vector<float> y;
  for (std::int64_t i = 0; i < input.m(); ++i) {
    const auto row = wide.begin() + i * ldy;
    y.insert(y.end(), row, row + linear.n());
    for (std::int64_t j = linear.n(); j < ldy; ++j) {
      EXPECT_TRUE(std::isnan(row[j])) << "written behind the row";
    }
  }
  return y;
}

TEST(KeptTiles, AreTheReferenceOnEveryVariant) {
  core::ThreadPool pool(2);
  for (const std::string scheme : kSchemes) {
    for (const Shape& shape : kShapes) {
      const PackedWeight weight = tile_weight(scheme, shape, 0.5, 3);
      const PackedLinear linear = PackedLinear::pack(weight, pool);
      for (const std::int64_t m : kTokens) {
        if (m > 20 && shape.groups > 31) {
          continue;
        }
        const QuantizedInput input = quantized(linear, m, pool);
        const auto plain = run(scalar_variant(), linear, input, pool);
        const auto compared = testing::compare(plain, packed_linear_reference(weight, input),
                                               packed_linear_chain(linear));
        EXPECT_EQ(compared.bad, 0) << scheme << " " << weight.n << " x " << weight.k << " m " << m
                                   << " at " << compared.first_bad;
        for (const Variant& variant : variants_here()) {
          EXPECT_EQ(run(variant, linear, input, pool), plain)
              << variant.name << " " << scheme << " " << weight.n << " x " << weight.k << " m "
              << m;
        }
      }
    }
  }
}

TEST(KeptTiles, HaveTheSameBitsForAnyThreadsAndTokens) {
  core::ThreadPool one(1);
  core::ThreadPool three(3);
  const PackedLinear linear =
      PackedLinear::pack(tile_weight("int4-asym-g16-bsr-t16", {40, 40}, 0.3, 4), three);
  for (const Variant& variant : variants_here()) {
    const auto many = run(variant, linear, quantized(linear, 90, one), one);
    EXPECT_EQ(run(variant, linear, quantized(linear, 90, three), three), many) << variant.name;
    const auto alone = run(variant, linear, quantized(linear, 1, three), three);
    EXPECT_EQ(alone, std::vector<float>(many.begin(), many.begin() + linear.n())) << variant.name;
  }
}

// 16-bit codes take two rows of digits.
TEST(KeptTiles, AddTheDigitsOfWideCodes) {
  core::ThreadPool pool(2);
  const PackedWeight weight = tile_weight("int4-asym-g16-bsr-t16", {5, 9}, 0.5, 5);
  const PackedLinear linear = PackedLinear::pack(weight, pool);
  for (const std::int64_t m : {1, 40}) {
    const QuantizedInput input = quantized(linear, m, pool, true);
    for (const Variant& variant : variants_here()) {
      const auto compared =
          testing::compare(run(variant, linear, input, pool),
                           packed_linear_reference(weight, input), 2 * packed_linear_chain(linear));
      EXPECT_EQ(compared.bad, 0) << variant.name;
    }
  }
}

// A fault in any part of a weight is seen.
TEST(KeptTiles, TestsSeePlantedFaults) {
  core::ThreadPool pool(2);
  const auto made = [] { return tile_weight("int4-asym-g16-bsr-t16", {5, 9}, 0.5, 6); };
  const PackedWeight good = made();
  const QuantizedInput input = quantized(PackedLinear::pack(good, pool), 2, pool);
  const PackedReference reference = packed_linear_reference(good, input);
  const auto seen = [&](auto damage) {
    PackedWeight bad = made();
    damage(bad);
    const PackedLinear linear = PackedLinear::pack(bad, pool);
    const auto here = variants_here();
    return std::none_of(here.begin(), here.end(), [&](const Variant& variant) {
      return testing::compare(run(variant, linear, input, pool), reference,
                              packed_linear_chain(linear))
                 .bad == 0;
    });
  };
  EXPECT_FALSE(seen([](PackedWeight&) {}));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.codes.mutable_data<std::uint8_t>()[77] ^= 0x10; }));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.scales.mutable_data<core::Fp16>()[5].bits ^= 1; }));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.zeros.mutable_data<std::uint8_t>()[3] ^= 0x10; }));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.groups.mutable_data<std::uint8_t>()[9] ^= 1; }));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.row_index.mutable_data<std::int32_t>()[1] -= 1; }));
}

// What is not finite in the inputs reaches the tiles that keep a group of them, and no other.
TEST(KeptTiles, ReadOnlyWhatIsKept) {
  core::ThreadPool pool(1);
  const PackedWeight weight = tile_weight("int4-asym-g16-bsr-t16", {9, 11}, 0.5, 8);
  const PackedLinear linear = PackedLinear::pack(weight, pool);
  for (const std::int64_t m : {1, 20}) {
    std::vector<float> x = testing::random_input(m, weight.k, 9);
    x[0] = std::numeric_limits<float>::infinity();
    const QuantizedInput input = quantized(linear, x, false, pool);
    for (const Variant& variant : variants_here()) {
      const auto y = run(variant, linear, input, pool);
      for (std::int64_t at = 0; at < m * weight.n; ++at) {
        const auto [begin, end] = formats::stored_groups_of(weight, at % weight.n);
        const bool reads =
            at < weight.n && begin < end && formats::stored_group(weight, begin) == 0;
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(at)]), reads) << variant.name << " " << at;
      }
    }
  }
}

// A file of tiles holds what is kept.
TEST(KeptTiles, AreReadFromMemoryThatHoldsThem) {
  core::ThreadPool pool(2);
  const PackedWeight weight = tile_weight("int4-asym-g16-bsr-t16", {12, 24}, 0.5, 3);
  const PackedLinear made = PackedLinear::pack(weight, pool);
  const PackedBytes bytes = made.stored();
  EXPECT_EQ(std::ssize(bytes.tiles), made.bytes());
  EXPECT_EQ(packed_plan(weight).tile_bytes, made.bytes());
  std::int64_t kept = 0;  // codes, scales and zero points, and the units of tiles
  for (std::int64_t row = 0; row < weight.n; row += kTileRows) {
    const auto [begin, end] = formats::stored_groups_of(weight, row);
    const std::int64_t groups = (end - begin + 1) / 2 * 2;
    kept += groups == 0 ? 0 : (64 + groups * (32 + 16) + 63) / 64 * 64 + groups * 128;
  }
  EXPECT_EQ(made.bytes(), kept);
  const PackedLinear viewed = PackedLinear::view(weight, bytes, {}, nullptr);
  const QuantizedInput input = quantized(made, 5, pool);
  EXPECT_EQ(run(scalar_variant(), viewed, input, pool), run(scalar_variant(), made, input, pool));
  PackedBytes shorter = bytes;
  shorter.tiles = shorter.tiles.first(shorter.tiles.size() - 64);
  EXPECT_THROW((void)PackedLinear::view(weight, shorter, {}, nullptr), core::Error);
}

// Dense layers with the same groups may stand beside them.
TEST(KeptTiles, StandBesideDenseLayers) {
  core::ThreadPool pool(2);
  const PackedLinear kept =
      PackedLinear::pack(tile_weight("int4-asym-g16-bsr-t16", {7, 8}, 0.5, 1), pool);
  const PackedLinear dense =
      PackedLinear::pack(testing::random_weight("int4-asym-g16", 40, 128, 2), pool);
  const QuantizedInput input = quantized(kept, 3, pool);
  const std::int64_t n = kept.n() + dense.n();
  for (const Variant& variant : variants_here()) {
    const auto of_kept = run(variant, kept, input, pool);
    const auto of_dense = run(variant, dense, input, pool);
    std::vector<float> y(static_cast<std::size_t>(3 * n));
    const PackedLinear* const both[] = {&kept, &dense};
    packed_linear(variant, both, input, y.data(), n, pool);
    for (std::int64_t token = 0; token < 3; ++token) {
      const auto row = y.begin() + token * n;
      EXPECT_TRUE(std::equal(row, row + kept.n(), of_kept.begin() + token * kept.n()));
      EXPECT_TRUE(std::equal(row + kept.n(), row + n, of_dense.begin() + token * dense.n()));
    }
  }
}

TEST(KeptTiles, RunInEveryPrecision) {
  const auto run_layer = [](ActivationPrecision activations) {
    CpuOps ops({2, activations});
    LinearSet set;
    set.id = 0;
    set.parts.push_back({"a", tile_weight("int4-asym-g16-bsr-t16", {2, 6}, 0.5, 1), {}});
    set.parts.push_back({"b", tile_weight("int4-asym-g16-bsr-t16", {1, 6}, 0.7, 2), {}});
    ops.prepare(set);
    Matrix x = ops.matrix(5, 96);
    const auto values = testing::random_input(5, 96, 3);
    std::copy(values.begin(), values.end(), x.data());
    CpuOps::Input input(std::move(x));
    const Matrix y = ops.linear(input, set);
    return std::vector<float>(y.values().begin(), y.values().end());
  };
  const auto exact = run_layer(ActivationPrecision::kFloat);
  const auto error_of = [&](const std::vector<float>& y) {
    double error = 0;
    double size = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      error += std::pow(static_cast<double>(y[i]) - exact[i], 2);
      size += std::pow(static_cast<double>(exact[i]), 2);
    }
    return std::sqrt(error / size);
  };
  EXPECT_LT(error_of(run_layer(ActivationPrecision::kInt8)), 0.01);
  EXPECT_LT(error_of(run_layer(ActivationPrecision::kInt16)), 1e-4);
}

}  // namespace
}  // namespace nibble::ops::cpu
