#include "ops/cpu/sparse/sparse_linear.h"

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cpu/sparse/rows/row_streams.h"
#include "ops/cpu/sparse/sparse_weights_for_tests.h"
#include "ops/cpu/sparse/tiles/tile_units.h"
#include "ops/int8_table.h"

// Every kernel that runs here against sums in double, and against each other to the last bit.
namespace nibble::ops::cpu {
namespace {

using formats::PackedWeight;

struct Shape {
  std::int64_t n, groups;
};
// One row; rows that end inside a window of 16 pieces; windows that keep nothing.
constexpr Shape kShapes[] = {{1, 1}, {3, 2}, {17, 8}, {40, 9}, {64, 24}, {33, 31}, {20, 300}};
constexpr Shape kFarGroups = {12, 1500};
constexpr std::int64_t kTokens[] = {1, 2, 3, 4, 5, 10, 16, 37, 77, 91};
constexpr const char* kSchemes[] = {
    "int4-asym-g16-bsr",        "int4-sym-g16-bsr",      "int4-asym-g32-bsr",
    "int4-asym-g64-bsr",        "int4-asym-g8-bsr",      "int8-asym-g16-bsr",
    "int8-sym-g32-bsr",         "int3-asym-g16-bsr",     "int2-asym-g16-bsr",
    "int4-asym-g16-bsr-a8",     "int4-asym-g16-bsr-a8s", "int4-asym-g16-bsr-a4",
    "int8-asym-g64-bsr-a8g128", "int4-asym-g16-s7-bsr",  "int4-sym-g8-s7-bsr",
    "int8-asym-g32-s7-bsr-a8",  "lut4-row-g16-bsr",      "lut4-matrix-g32-bsr",
    "lut3-row-g8-bsr",          "lut2-matrix-g64-bsr",   "lut4-row-g16-bsr-a8s",
    "lut3-row-g64-bsr-a8g128",  "lut4-nf4-g16-bsr-a4"};
// Tiles of rows keep the same groups.
constexpr Shape kTileShapes[] = {{16, 1}, {32, 2}, {80, 9}, {192, 24}, {48, 31}, {32, 300}};
constexpr const char* kTileSchemes[] = {
    "int4-asym-g16-bsr-t16",        "int4-sym-g16-bsr-t16",      "int4-asym-g32-bsr-t16",
    "int4-asym-g64-bsr-t16",        "int4-asym-g8-bsr-t16",      "int8-asym-g16-bsr-t16",
    "int8-sym-g32-bsr-t16",         "int3-asym-g16-bsr-t16",     "int2-asym-g64-bsr-t16",
    "int4-asym-g16-bsr-t16-a8",     "int4-asym-g16-bsr-t16-a8s", "int4-asym-g16-bsr-t16-a4",
    "int8-asym-g64-bsr-t16-a8g128", "int4-asym-g16-s7-bsr-t16",  "int4-sym-g8-s7-bsr-t16",
    "int8-asym-g32-s7-bsr-t16-a8"};

/// Keeps `share` of the groups. Every third row, or tile, is empty, every fifth has all.
PackedWeight sparse_weight(const std::string& text, Shape shape, double share, std::uint64_t seed) {
  const std::int64_t group = formats::parse_scheme(text).scale.group;
  return testing::sparse_weight(text, shape.n, shape.groups * group, seed,
                                testing::mixed_share(share, 1));
}

QuantizedInput quantized(const PackedWeight& weight, std::int64_t m, core::ThreadPool& pool,
                         bool wide = false) {
  QuantizedInput input;
  const std::vector<float> x = testing::random_input(m, weight.k, 7);
  InputNeeds needs = sparse_needs(weight);
  needs.wide = wide;
  quantize_input(x.data(), m, weight.k, weight.k, needs, input, pool);
  return input;
}

/// y [m, n] in rows with room behind them, which must stay as it was.
std::vector<float> run(const SparseKernel& kernel, const PackedWeight& weight,
                       const QuantizedInput& input, core::ThreadPool& pool) {
  constexpr std::int64_t kRoom = 3;
  const float poison = std::numeric_limits<float>::quiet_NaN();
  const std::int64_t ldy = weight.n + kRoom;
  std::vector<float> wide(static_cast<std::size_t>(input.m() * ldy), poison);
  const SparseStreams streams = SparseStreams::pack(weight, pool);
  const SparseStreams* const alone = &streams;
  sparse_linear(kernel, {&alone, 1}, input, wide.data(), ldy, pool);
  std::vector<float> y;
  for (std::int64_t i = 0; i < input.m(); ++i) {
    const auto row = wide.begin() + i * ldy;
    y.insert(y.end(), row, row + weight.n);
    for (std::int64_t j = weight.n; j < ldy; ++j) {
      EXPECT_TRUE(std::isnan(row[j])) << "written behind the row";
    }
  }
  return y;
}

/// What the codes of a row stand for, in units of `unit`.
struct RowWeights {
  std::vector<int> values;
  double unit = 1;
};
RowWeights weights_of(const PackedWeight& weight, std::int64_t row) {
  const auto groups = static_cast<std::size_t>(formats::groups_per_row(weight.scheme, weight.k));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.k));
  std::vector<std::uint8_t> zeros(groups);
  formats::unpack_codes(weight, row, codes);
  formats::unpack_zeros(weight, row, zeros);
  RowWeights weights;
  const bool has_book = formats::has_book(weight.scheme);
  const Int8Table table = has_book ? int8_table(formats::book_of(weight, row)) : Int8Table();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const int zero = zeros[i / static_cast<std::size_t>(weight.scheme.scale.group)];
    weights.values.push_back(has_book ? table.entries[codes[i]] : codes[i] - zero);
  }
  weights.unit = has_book ? static_cast<double>(table.unit) : 1;
  return weights;
}

/// y in double, from what formats says of each row. `magnitude` is the sum of what quads add, each
/// of which is rounded.
PackedReference reference_of(const PackedWeight& weight, const QuantizedInput& input) {
  const auto groups = static_cast<std::size_t>(formats::groups_per_row(weight.scheme, weight.k));
  const std::int64_t group = input.group();
  const std::int64_t digits = input.rows_per_token();
  PackedReference result;
  result.y.resize(static_cast<std::size_t>(input.m() * weight.n));
  result.magnitude.resize(result.y.size());
  std::vector<float> scales(groups);
  for (std::int64_t row = 0; row < weight.n; ++row) {
    const RowWeights weights = weights_of(weight, row);
    formats::unpack_scales(weight, row, scales);
    for (std::int64_t x = 0; x < input.m() * digits; ++x) {
      const auto at = static_cast<std::size_t>(x / digits * weight.n + row);
      for (std::int64_t k = 0; k < weight.k; k += kSparseQuad) {
        const auto g = static_cast<std::size_t>(k / group);
        const std::int8_t* a = input.codes(x) + k / group * input.group_stride() + k % group;
        double sum = 0;
        for (std::int64_t j = 0; j < kSparseQuad; ++j) {
          sum += weights.values[static_cast<std::size_t>(k + j)] * a[j];
        }
        sum *=
            weights.unit * static_cast<double>(scales[g]) * static_cast<double>(input.scales(x)[g]);
        result.y[at] += sum;
        result.magnitude[at] += std::fabs(sum);
      }
    }
  }
  return result;
}

std::int64_t chain_of(const PackedWeight& weight) {
  return weight.k / kSparseQuad;
}

/// Returns how often a kernel with vectors ran.
int compare_kernels(std::span<const char* const> schemes, std::span<const Shape> shapes) {
  core::ThreadPool pool(2);
  int vector_kernels = 0;
  for (const std::string scheme : schemes) {
    for (const Shape& shape : shapes) {
      const PackedWeight weight = sparse_weight(scheme, shape, 0.5, 3);
      for (const std::int64_t m : kTokens) {
        if (m > 16 && weight.n * weight.k > 200000) {
          continue;
        }
        const QuantizedInput input = quantized(weight, m, pool);
        const auto plain = run(scalar_sparse_kernel(), weight, input, pool);
        const auto compared =
            testing::compare(plain, reference_of(weight, input), chain_of(weight));
        EXPECT_EQ(compared.bad, 0) << scheme << " " << shape.n << " x " << weight.k << " m " << m
                                   << " at " << compared.first_bad;
        for (const SparseKernel& kernel : sparse_kernels()) {
          if (kernel.runs_here()) {
            EXPECT_EQ(run(kernel, weight, input, pool), plain)
                << kernel.name << " " << scheme << " " << shape.n << " x " << weight.k << " m "
                << m;
            vector_kernels += kernel.name == std::string("scalar") ? 0 : 1;
          }
        }
      }
    }
  }
  return vector_kernels;
}

TEST(SparseLinear, IsTheReferenceOnEveryKernel) {
  if (compare_kernels(kSchemes, kShapes) == 0) {
    GTEST_SKIP() << "no kernel with vectors runs here";
  }
}

TEST(SparseLinear, IsTheReferenceOfTilesOnEveryKernel) {
  if (compare_kernels(kTileSchemes, kTileShapes) == 0) {
    GTEST_SKIP() << "no kernel with vectors runs here";
  }
}

TEST(SparseLinear, TakesGroupsThatLieFarApart) {
  core::ThreadPool pool(2);
  for (const std::string scheme : {"int4-asym-g8-bsr", "int4-asym-g64-bsr", "int8-sym-g16-bsr"}) {
    const PackedWeight weight = sparse_weight(scheme, kFarGroups, 0.004, 10);
    const QuantizedInput input = quantized(weight, 2, pool);
    const PackedReference reference = reference_of(weight, input);
    for (const SparseKernel& kernel : sparse_kernels()) {
      if (kernel.runs_here()) {
        const auto y = run(kernel, weight, input, pool);
        EXPECT_EQ(testing::compare(y, reference, chain_of(weight)).bad, 0)
            << kernel.name << " " << scheme;
      }
    }
  }
}

// Sums of 16 bits hold two products of the largest entries and activations.
TEST(SparseLinear, TakesTheLargestEntriesOfBooks) {
  core::ThreadPool pool(1);
  constexpr std::int64_t kInputs = 160;
  formats::PackedWeightBuilder builder(formats::parse_scheme("lut2-row-g16-bsr"), 4, kInputs);
  for (std::int64_t row = 0; row < 4; ++row) {
    builder.set_book(row, std::vector<float>{-1, 1, -0.375f, 0});
    std::vector<std::uint8_t> codes(kInputs, row == 0 ? 0 : 1);
    for (std::size_t i = 0; row > 1 && i < codes.size(); i += static_cast<std::size_t>(row)) {
      codes[i] = 0;
    }
    builder.set_codes(row, codes);
    for (std::int64_t g = 0; g < kInputs / 16; ++g) {
      builder.set_group(row, g, {1.0f, 0});
    }
  }
  const PackedWeight weight = builder.finish();
  for (const std::int64_t m : {1, 2, 3, 16, 33}) {
    QuantizedInput input;
    std::vector<float> x(static_cast<std::size_t>(m * kInputs), 1.0f);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = i / kInputs % 3 == 0 || i % (i / kInputs % 3 + 1) != 0 ? 1.0f : -1.0f;
    }
    quantize_input(x.data(), m, kInputs, kInputs, sparse_needs(weight), input, pool);
    const auto plain = run(scalar_sparse_kernel(), weight, input, pool);
    const auto compared = testing::compare(plain, reference_of(weight, input), chain_of(weight));
    EXPECT_EQ(compared.bad, 0) << m;
    for (const SparseKernel& kernel : sparse_kernels()) {
      if (kernel.runs_here()) {
        EXPECT_EQ(run(kernel, weight, input, pool), plain) << kernel.name << " " << m;
      }
    }
  }
}

TEST(SparseStreams, HaveTheirGroupsAndMasks) {
  core::ThreadPool pool(2);
  const PackedWeight weight = sparse_weight("int4-asym-g16-bsr", {64, 40}, 0.5, 11);
  const SparseStreams streams = SparseStreams::pack(weight, pool);
  ASSERT_EQ(streams.n(), 64);
  for (std::int64_t row = 0; row < streams.n(); ++row) {
    const auto [begin, end] = formats::stored_groups_of(weight, row);
    const auto ends = streams.first().subspan(static_cast<std::size_t>(row), 2);
    const std::int64_t bytes = std::int64_t{ends[1] - ends[0]} * kStreamBorder;
    const std::int64_t least =
        std::int64_t{3} * 2 + (end - begin) * 21 / 2;  // masks of 3 windows; 10.5 a group
    EXPECT_GE(bytes, least) << row;
    EXPECT_LE(bytes, least + 3 + kStreamBorder) << row;  // half a byte of zeros for each window
  }
  EXPECT_EQ(streams.bytes(), std::int64_t{streams.first().back()} * kStreamBorder + kReadBehind);
  EXPECT_THROW((void)SparseStreams::pack(testing::random_weight("int4-asym-g16", 16, 64, 12), pool),
               core::Error);
}

TEST(SparseStreams, OfBooksHaveATableInThePlaceOfZeros) {
  core::ThreadPool pool(1);
  for (const std::string scheme : {"lut4-row-g16-bsr", "lut3-matrix-g16-bsr"}) {
    const PackedWeight weight = sparse_weight(scheme, {20, 40}, 0.5, 12);
    const SparseStreams streams = SparseStreams::pack(weight, pool);
    for (std::int64_t row = 0; row < streams.n(); ++row) {
      const std::uint8_t* const stream =
          streams.view().bytes +
          std::int64_t{streams.first()[static_cast<std::size_t>(row)]} * kStreamBorder;
      const Int8Table table = int8_table(formats::book_of(weight, row));
      for (std::size_t code = 0; code < table.entries.size(); ++code) {
        EXPECT_EQ(static_cast<std::int8_t>(stream[code]), table.entries[code]);
      }
      const auto [begin, end] = formats::stored_groups_of(weight, row);
      const auto ends = streams.first().subspan(static_cast<std::size_t>(row), 2);
      const std::int64_t bytes = std::int64_t{ends[1] - ends[0]} * kStreamBorder;
      const std::int64_t least = 20 + std::int64_t{3} * 2 + (end - begin) * 10;
      EXPECT_GE(bytes, least) << row;
      EXPECT_LT(bytes, least + kStreamBorder) << row;
    }
  }
}

TEST(SparseStreams, OfTilesHaveTheirGroupsAndNothingElse) {
  core::ThreadPool pool(2);
  const PackedWeight weight = sparse_weight("int4-asym-g16-bsr-t16", {192, 24}, 0.5, 11);
  const SparseStreams streams = SparseStreams::pack(weight, pool);
  constexpr TileUnitLayout kLayout = tile_unit_layout_of(16, 4, 2);
  EXPECT_EQ(kLayout.bytes, 168);  // 10.5 bytes for a group of a row
  EXPECT_EQ(tile_unit_layout_of(16, 4, 1).bytes, 152);
  ASSERT_EQ(streams.n(), 192);
  EXPECT_EQ(streams.first().back(), formats::stored_group_count(weight));
  EXPECT_EQ(streams.bytes(), formats::stored_group_count(weight) * (kLayout.bytes + 2));
}

TEST(SparseLinear, HasTheSameBitsForAnyThreadsAndTokens) {
  core::ThreadPool one(1);
  core::ThreadPool three(3);
  for (const std::string scheme :
       {"int4-asym-g16-bsr", "int4-asym-g16-bsr-t16", "lut4-row-g16-bsr"}) {
    const PackedWeight weight = sparse_weight(scheme, {304, 40}, 0.3, 4);
    for (const SparseKernel& kernel : sparse_kernels()) {
      if (!kernel.runs_here()) {
        continue;
      }
      const auto many = run(kernel, weight, quantized(weight, 29, one), one);
      EXPECT_EQ(run(kernel, weight, quantized(weight, 29, three), three), many) << kernel.name;
      const auto alone = run(kernel, weight, quantized(weight, 1, three), three);
      EXPECT_EQ(alone, std::vector<float>(many.begin(), many.begin() + 304)) << kernel.name;
    }
  }
}

// 16-bit codes take two rows of digits.
TEST(SparseLinear, AddsTheDigitsOfWideCodes) {
  core::ThreadPool pool(2);
  for (const std::string scheme :
       {"int4-asym-g16-bsr", "int4-asym-g16-bsr-t16", "lut4-row-g16-bsr"}) {
    const PackedWeight weight = sparse_weight(scheme, {48, 9}, 0.5, 5);
    for (const std::int64_t m : {3, 40}) {
      const QuantizedInput input = quantized(weight, m, pool, true);
      for (const SparseKernel& kernel : sparse_kernels()) {
        if (kernel.runs_here()) {
          const auto compared = testing::compare(run(kernel, weight, input, pool),
                                                 reference_of(weight, input), 2 * chain_of(weight));
          EXPECT_EQ(compared.bad, 0) << kernel.name << " " << scheme << " " << m;
        }
      }
    }
  }
}

class PlantedFaults : public ::testing::TestWithParam<const char*> {};

// A fault in any part of a weight is seen.
TEST_P(PlantedFaults, AreSeen) {
  core::ThreadPool pool(2);
  const auto made = [] { return sparse_weight(GetParam(), {80, 9}, 0.5, 6); };
  const PackedWeight good = made();
  const QuantizedInput input = quantized(good, 2, pool);
  const PackedReference reference = reference_of(good, input);
  const auto seen = [&](auto damage) {
    PackedWeight bad = made();
    damage(bad);
    for (const SparseKernel& kernel : sparse_kernels()) {
      if (kernel.runs_here() &&
          testing::compare(run(kernel, bad, input, pool), reference, chain_of(bad)).bad == 0) {
        return false;
      }
    }
    return true;
  };
  EXPECT_FALSE(seen([](PackedWeight&) {}));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.codes.mutable_data<std::uint8_t>()[77] ^= 0x10; }));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.scales.mutable_data<core::Fp16>()[5].bits ^= 1; }));
  EXPECT_TRUE(seen([](PackedWeight& w) {
    if (formats::has_zeros(w.scheme)) {
      w.zeros.mutable_data<std::uint8_t>()[3] ^= 0x10;
    } else {
      w.book.mutable_data<core::Fp16>()[3].bits ^= 0x400;  // twice as much, or half
    }
  }));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.groups.mutable_data<std::uint8_t>()[9] ^= 1; }));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.row_index.mutable_data<std::int32_t>()[1] -= 1; }));
}

INSTANTIATE_TEST_SUITE_P(SparseLinear, PlantedFaults,
                         ::testing::Values("int4-asym-g16-bsr", "int4-asym-g16-bsr-t16",
                                           "lut4-row-g16-bsr"),
                         [](const auto& test) {
                           const std::string scheme = test.param;
                           return scheme.ends_with("-t16")      ? "OfTiles"
                                  : scheme.starts_with("lut4-") ? "OfBooks"
                                                                : "OfRows";
                         });

// What is not finite in the inputs reaches the rows that keep a group of them, and no other.
TEST(SparseLinear, ReadsOnlyWhatIsKept) {
  core::ThreadPool pool(1);
  for (const std::string scheme :
       {"int4-asym-g16-bsr", "int4-asym-g16-bsr-t16", "lut4-row-g16-bsr"}) {
    const PackedWeight weight = sparse_weight(scheme, {144, 11}, 0.5, 8);
    std::vector<float> x = testing::random_input(1, weight.k, 9);
    x[0] = std::numeric_limits<float>::infinity();
    QuantizedInput input;
    quantize_input(x.data(), 1, weight.k, weight.k, sparse_needs(weight), input, pool);
    for (const SparseKernel& kernel : sparse_kernels()) {
      if (!kernel.runs_here()) {
        continue;
      }
      const auto y = run(kernel, weight, input, pool);
      for (std::int64_t row = 0; row < weight.n; ++row) {
        const auto [begin, end] = formats::stored_groups_of(weight, row);
        const bool reads = begin < end && formats::stored_group(weight, begin) == 0;
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(row)]), reads)
            << kernel.name << " " << scheme << " " << row;
      }
    }
  }
}

class SparseLayers : public ::testing::Test {
 protected:
  static std::vector<float> run_layer(ActivationPrecision activations, const std::string& scheme) {
    CpuOps ops({2, activations});
    LinearSet set;
    set.id = 0;
    set.parts.push_back({"a", sparse_weight(scheme, {32, 6}, 0.5, 1), {}});
    set.parts.push_back({"b", sparse_weight(scheme, {16, 6}, 0.7, 2), {}});
    ops.prepare(set);
    const std::int64_t bytes =
        formats::stored_bytes(set.parts[0].weight) + formats::stored_bytes(set.parts[1].weight);
    const bool in_float = activations == ActivationPrecision::kFloat;
    core::ThreadPool pool(1);
    const std::int64_t packed = SparseStreams::pack(set.parts[0].weight, pool).bytes() +
                                SparseStreams::pack(set.parts[1].weight, pool).bytes();
    EXPECT_EQ(ops.prepared_bytes(), in_float ? 0 : packed);
    EXPECT_EQ(ops.unprepared_bytes(set), in_float ? bytes : 0);
    Matrix x = ops.matrix(5, 96);
    const auto values = testing::random_input(5, 96, 3);
    std::copy(values.begin(), values.end(), x.data());
    CpuOps::Input input(std::move(x));
    const Matrix y = ops.linear(input, set);
    return {y.values().begin(), y.values().end()};
  }
};

TEST_F(SparseLayers, RunSideBySideInEveryPrecision) {
  for (const std::string scheme :
       {"int4-asym-g16-bsr", "int4-asym-g16-bsr-t16", "lut4-row-g16-bsr"}) {
    const auto exact = run_layer(ActivationPrecision::kFloat, scheme);
    const auto close_to = [&](const std::vector<float>& y, double bound) {
      double error = 0;
      double size = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        error += std::pow(static_cast<double>(y[i]) - exact[i], 2);
        size += std::pow(static_cast<double>(exact[i]), 2);
      }
      return std::sqrt(error / size) < bound;
    };
    EXPECT_TRUE(close_to(run_layer(ActivationPrecision::kInt8, scheme), 0.01)) << scheme;
    const double bound = scheme.starts_with("lut4") ? 0.005 : 1e-4;  // tables of INT8
    EXPECT_TRUE(close_to(run_layer(ActivationPrecision::kInt16, scheme), bound)) << scheme;
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
