#include "ops/cpu/packed/packed_linear.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cpu/matrix.h"
#include "ops/cpu/packed/amx_kernel.h"
#include "ops/cpu/packed/plain_lanes.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cpu/packed/test_schemes.h"
#include "ops/cpu/tiles/emulated_tiles.h"

// Walks every variant that this machine runs over schemes and shapes; a variant of another machine
// is skipped with the reason. The loops of amxint8 also run on emulated tiles.
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kTokens = 70;  // more than one block of tokens
constexpr std::int64_t kBatches[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 33, kTokens};

struct Shape {
  std::int64_t n, k;
};
// One row; ragged tiles; inputs that end inside a unit, a group, a panel; two real layers' inputs.
constexpr Shape kShapes[] = {{1, 32},   {15, 64},  {16, 96},  {17, 128}, {64, 160},  {100, 256},
                             {33, 512}, {17, 704}, {20, 100}, {5, 50},   {48, 1408}, {37, 1280}};

struct Problem {
  formats::PackedWeight weight;
  PackedLinear linear;
  std::vector<float> x;
  QuantizedInput input;

  Problem(const std::string& scheme, Shape shape, std::int64_t m, core::ThreadPool& pool)
      : weight(testing::random_weight(scheme, shape.n, shape.k, 7)),
        linear(PackedLinear::pack(weight, pool)),
        x(testing::random_input(m, shape.k, 11)) {
    for (std::size_t i = 5; weight.scheme.activation.keeps_outliers && i < x.size(); i += 37) {
      x[i] *= 9;  // some of them become outliers
    }
    quantize_input(x.data(), m, shape.k, shape.k, linear.needs(), input, pool);
  }
};

/// y [m, n] of the first m tokens; NaN where the kernel wrote nothing.
std::vector<float> run(const Variant& variant, const Problem& p, std::int64_t m,
                       core::ThreadPool& pool) {
  QuantizedInput input;
  quantize_input(variant, p.x.data(), m, p.linear.k(), p.linear.k(), p.linear.needs(), input, pool);
  std::vector<float> y(static_cast<std::size_t>(m * p.linear.n()), std::nanf(""));
  const PackedLinear* part = &p.linear;
  packed_linear(variant, {&part, 1}, input, y.data(), p.linear.n(), pool);
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b, std::size_t count) {
  return std::memcmp(a.data(), b.data(), count * sizeof(float)) == 0;
}

/// The loops of amxint8 on emulated tiles, for any number of tokens.
Variant amxint8_emulated() {
  Variant variant = scalar_variant();
  variant.name = "amxint8_emulated";
  variant.block_tokens = amx_block_tokens;
  variant.run = [](const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                   float* y, std::int64_t ldy) {
    run_amx<EmulatedTiles, PlainLanes>(w, x, begin, end, y, ldy);
    core::require(!EmulatedTiles::is_configured(), core::ErrorKind::kFailed,
                  "the tile configuration leaks");
  };
  return variant;
}

const std::vector<Variant>& tested_variants() {
  static const std::vector<Variant> tested = [] {
    std::vector<Variant> all(variants().begin(), variants().end());
    all.push_back(amxint8_emulated());
    return all;
  }();
  return tested;
}

class PackedLinearVariant : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    for (const Variant& variant : tested_variants()) {
      if (std::string(variant.name) == GetParam()) {
        if (!variant.runs_here()) {
          GTEST_SKIP() << "this machine lacks " << variant.needs;
        }
        variant_ = &variant;
        return;
      }
    }
    FAIL() << "no variant " << GetParam();
  }

  const Variant* variant_ = nullptr;
  core::ThreadPool one_{1};
  core::ThreadPool two_{2};
};

std::vector<const char*> variant_names() {
  std::vector<const char*> names;
  for (const Variant& variant : tested_variants()) {
    names.push_back(variant.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Isa, PackedLinearVariant, ::testing::ValuesIn(variant_names()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(PackedLinearVariant, MatchesTheReferenceInEveryBatch) {
  double worst = 0.0;
  for (const char* scheme : kSchemes) {
    for (const Shape& shape : kShapes) {
      if (!testing::exists(scheme, shape.k)) {
        continue;
      }
      const Problem p(scheme, shape, kTokens, two_);
      const PackedReference reference = packed_linear_reference(p.weight, p.input);
      const std::vector<float> all = run(*variant_, p, kTokens, two_);
      const auto result = testing::compare(all, reference, packed_linear_chain(p.linear));
      worst = std::max(worst, result.worst);
      ASSERT_EQ(result.bad, 0) << scheme << " n=" << shape.n << " k=" << shape.k
                               << ": first bad is element " << result.first_bad << ", worst error "
                               << result.worst << " of the bound";
      for (const std::int64_t m : kBatches) {
        const std::vector<float> some = run(*variant_, p, m, one_);
        ASSERT_TRUE(same_bits(some, all, some.size()))
            << scheme << " n=" << shape.n << " k=" << shape.k << ": batch " << m
            << " differs from batch " << kTokens;
      }
    }
  }
  std::printf("%s: the worst error is %.3f of the bound\n", variant_->name, worst);
}

// Sums of a whole row, over more inputs than any panel holds, with codes at their ends.
TEST_P(PackedLinearVariant, SumsLongRows) {
  for (const char* scheme : {"int8-sym-row-a8", "int8-asym-row-a8", "int4-sym-row-a8",
                             "int4-asym-row-a8", "lut4-row-row-a8", "int2-sym-row-a8"}) {
    if (!testing::exists(scheme, 4640)) {
      ADD_FAILURE() << scheme;
    }
    Problem p(scheme, {33, 4640}, kTokens, two_);
    for (std::size_t i = 0; i < 4640; ++i) {
      p.x[i] = 3.0f;  // all codes 127: the sum of the row takes more than 16 bits
    }
    quantize_input(p.x.data(), kTokens, 4640, 4640, p.linear.needs(), p.input, two_);
    const PackedReference reference = packed_linear_reference(p.weight, p.input);
    const std::vector<float> all = run(*variant_, p, kTokens, two_);
    const auto result = testing::compare(all, reference, packed_linear_chain(p.linear));
    EXPECT_EQ(result.bad, 0) << scheme << ": first bad is element " << result.first_bad;
    for (const std::int64_t m : kBatches) {
      const std::vector<float> some = run(*variant_, p, m, one_);
      EXPECT_TRUE(same_bits(some, all, some.size())) << scheme << ", batch " << m;
    }
  }
}

// Large outputs may be written past the caches.
TEST_P(PackedLinearVariant, WritesLargeOutputs) {
  constexpr std::int64_t kRows = 4 * 1024;
  for (const char* scheme : {"int4-sym-g32", "int8-sym-row-a8"}) {
    const Problem p(scheme, {kRows, 288}, kTokens, two_);
    const std::vector<float> expected = run(scalar_variant(), p, kTokens, two_);
    BufferPool buffers;  // on a border of 64 bytes
    const BufferPool::Buffer y = buffers.take(kTokens * kRows);
    std::fill_n(y.data, kTokens * kRows, std::nanf(""));
    const PackedLinear* part = &p.linear;
    packed_linear(*variant_, {&part, 1}, p.input, y.data, kRows, two_);
    EXPECT_EQ(std::memcmp(y.data, expected.data(), expected.size() * sizeof(float)), 0) << scheme;
    buffers.give_back(y);
  }
}

// A bias is added to what the products are without it, in one addition.
TEST_P(PackedLinearVariant, AddsBiases) {
  for (const char* scheme : kSchemes) {
    for (const Shape& shape : {Shape{100, 256}, Shape{17, 704}, Shape{4096, 128}}) {
      const bool large = shape.n > 100;  // may be written past the caches
      if (!testing::exists(scheme, shape.k) || (large && std::string(scheme) != "int8-sym-row")) {
        continue;
      }
      const Problem p(scheme, shape, kTokens, two_);
      const std::vector<float> bias = testing::random_input(1, shape.n + 1, 5);
      const std::span<const float> biases[] = {std::span(bias).subspan(1)};  // on no border
      std::vector<float> expected = run(*variant_, p, kTokens, two_);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] += biases[0][i % biases[0].size()];
      }
      BufferPool buffers;
      const BufferPool::Buffer y = buffers.take(kTokens * shape.n);
      const PackedLinear* part = &p.linear;
      packed_linear(*variant_, {&part, 1}, p.input, y.data, shape.n, two_, biases);
      EXPECT_EQ(std::memcmp(y.data, expected.data(), expected.size() * sizeof(float)), 0)
          << scheme << " n=" << shape.n;
      buffers.give_back(y);
    }
  }
}

TEST_P(PackedLinearVariant, SixteenBitInputsMatchTheReferenceInEveryBatch) {
  for (const char* scheme : {"int4-sym-g32", "int4-asym-g128", "int8-asym-g64", "int3-asym-row",
                             "lut4-nf4-g64", "lut4-row-g128", "mxfp4", "nvfp4", "int4-min-g32",
                             "int4-min-g32-s8", "int8-sym-g16-s8", "int4-asym-g128-2of4"}) {
    for (const Shape& shape : {Shape{17, 704}, Shape{48, 1408}, Shape{100, 256}}) {
      if (!testing::exists(scheme, shape.k)) {
        continue;
      }
      const Problem p(scheme, shape, kTokens, two_);
      InputNeeds needs = p.linear.needs();
      needs.wide = true;
      const auto run_wide = [&](std::int64_t m, core::ThreadPool& pool) {
        QuantizedInput input;
        quantize_input(*variant_, p.x.data(), m, shape.k, shape.k, needs, input, pool);
        std::vector<float> y(static_cast<std::size_t>(m * shape.n), std::nanf(""));
        const PackedLinear* part = &p.linear;
        packed_linear(*variant_, {&part, 1}, input, y.data(), shape.n, pool);
        return y;
      };
      QuantizedInput input;
      quantize_input(p.x.data(), kTokens, shape.k, shape.k, needs, input, two_);
      const std::vector<float> all = run_wide(kTokens, two_);
      const auto result = testing::compare(all, packed_linear_reference(p.weight, input),
                                           2 * packed_linear_chain(p.linear));
      ASSERT_EQ(result.bad, 0) << scheme << " n=" << shape.n << " k=" << shape.k << " worst "
                               << result.worst;
      for (const std::int64_t m : {1, 2, 3, 5, 33}) {
        const std::vector<float> some = run_wide(m, one_);
        ASSERT_TRUE(same_bits(some, all, some.size())) << scheme << " batch " << m;
      }
    }
  }
}

// More tokens than any block of them holds, beside the products of few: of codes that some variants
// read where they lie, and of such that all unpack.
TEST_P(PackedLinearVariant, ManyTokensAreAsFew) {
  constexpr std::int64_t kMany = 301;
  for (const char* scheme :
       {"int8-sym-row-a8", "int8-asym-g64", "int8-sym-g128", "int8-min-g32-s8", "int8-sym-g16-s8",
        "int4-sym-g128", "int4-asym-g32", "int3-sym-row", "lut4-row-g128", "int2-asym-g64-a8o",
        "int4-sym-row-a4g48", "int8-sym-row-2of4-a8", "int4-asym-g32-2of4"}) {
    for (const Shape& shape : {Shape{33, 512}, Shape{100, 256}, Shape{64, 768}, Shape{48, 1408}}) {
      if (!testing::exists(scheme, shape.k)) {
        continue;
      }
      const Problem p(scheme, shape, kMany, two_);
      const std::vector<float> all = run(*variant_, p, kMany, two_);
      const auto result = testing::compare(all, packed_linear_reference(p.weight, p.input),
                                           packed_linear_chain(p.linear));
      ASSERT_EQ(result.bad, 0) << scheme << " n=" << shape.n << " k=" << shape.k << " worst "
                               << result.worst;
      for (const std::int64_t m : {8, 17, 18, 19, 143, 144, 145, 150, 288, 289}) {
        const std::vector<float> some = run(*variant_, p, m, one_);
        ASSERT_TRUE(same_bits(some, all, some.size()))
            << scheme << " n=" << shape.n << " k=" << shape.k << ": batch " << m;
      }
    }
  }
}

TEST_P(PackedLinearVariant, EqualsTheScalarVariantToTheLastBit) {
  const Variant& scalar = variants().front();
  for (const char* scheme : kSchemes) {
    for (const Shape& shape : {Shape{40, 320}, Shape{17, 100}, Shape{40, 768}}) {
      if (!testing::exists(scheme, shape.k)) {
        continue;
      }
      const Problem p(scheme, shape, 9, two_);
      const std::vector<float> expected = run(scalar, p, 9, one_);
      ASSERT_TRUE(same_bits(run(*variant_, p, 9, two_), expected, expected.size()))
          << scheme << " n=" << shape.n << " k=" << shape.k;
    }
  }
}

TEST_P(PackedLinearVariant, PlantedFaultsAreSeen) {
  Problem p("int4-asym-g128", {64, 1024}, 2, one_);
  const PackedReference reference = packed_linear_reference(p.weight, p.input);
  const auto fails_with = [&](auto&& damage) {
    Problem damaged("int4-asym-g128", {64, 1024}, 2, one_);
    damage(damaged.weight);
    damaged.linear = PackedLinear::pack(damaged.weight, one_);
    const std::vector<float> y = run(*variant_, damaged, 2, one_);
    return testing::compare(y, reference, packed_linear_chain(p.linear)).bad > 0;
  };
  EXPECT_FALSE(fails_with([](auto&) {}));
  EXPECT_TRUE(fails_with([](auto& w) { w.codes.template mutable_data<std::uint8_t>()[100] ^= 1; }))
      << "one code bit";
  EXPECT_TRUE(fails_with([](auto& w) {
    std::uint8_t& byte = w.codes.template mutable_data<std::uint8_t>()[7];
    ASSERT_NE(byte >> 4, byte & 15);
    byte = static_cast<std::uint8_t>((byte << 4) | (byte >> 4));
  })) << "nibbles of a byte swapped";
  EXPECT_TRUE(fails_with([](auto& w) { w.zeros.template mutable_data<std::uint8_t>()[31] ^= 1; }))
      << "a zero point";
  EXPECT_TRUE(fails_with([](auto& w) {
    w.scales.template mutable_data<core::Fp16>()[5].bits ^= 1;
  })) << "last bit of a scale";
}

// The same for what GGUF's blocks have beside codes.
TEST_P(PackedLinearVariant, PlantedFaultsInBlocksAreSeen) {
  const auto fails_with = [&](const char* scheme, auto&& damage) {
    Problem p(scheme, {64, 1024}, 2, one_);
    const PackedReference reference = packed_linear_reference(p.weight, p.input);
    damage(p.weight);
    p.linear = PackedLinear::pack(p.weight, one_);
    const std::vector<float> y = run(*variant_, p, 2, one_);
    return testing::compare(y, reference, packed_linear_chain(p.linear)).bad > 0;
  };
  const auto flip = [](core::Tensor& tensor) { tensor.mutable_raw()[5] ^= std::byte{1}; };
  EXPECT_FALSE(fails_with("int4-min-g32-s8", [](auto&) {}));
  EXPECT_TRUE(fails_with("int4-min-g32-s8", [&](auto& w) { flip(w.scales); })) << "a scale";
  EXPECT_TRUE(fails_with("int4-min-g32-s8", [&](auto& w) { flip(w.supers); })) << "its float16";
  EXPECT_TRUE(fails_with("int4-min-g32-s8", [&](auto& w) { flip(w.minima); })) << "a minimum";
  EXPECT_TRUE(fails_with("int4-min-g32-s8", [&](auto& w) { flip(w.min_supers); })) << "its float16";
  EXPECT_TRUE(fails_with("int4-min-g32", [&](auto& w) { flip(w.minima); })) << "a float16 minimum";
  EXPECT_TRUE(fails_with("int8-sym-g16-s8", [&](auto& w) { flip(w.scales); })) << "half a unit";
}

// The largest products that a format can make: all codes at their end, all activations at +-127.
TEST_P(PackedLinearVariant, NothingSaturates) {
  for (const char* scheme : {"int4-sym-g32",
                             "int4-sym-g256",
                             "int4-asym-g128",
                             "int8-sym-g128",
                             "int8-sym-g256",
                             "int3-sym-g256",
                             "int3-asym-g256",
                             "int2-asym-g256",
                             "lut3-row-g256",
                             "lut2-row-g256",
                             "lut3-matrix-g256",
                             "int8-asym-g256",
                             "lut4-nf4-g256",
                             "lut4-fp4-g256",
                             "lut4-row-g256",
                             "mxfp4",
                             "nvfp4",
                             "int4-min-g32-s8",
                             "int8-min-g32-s8",
                             "int8-sym-g16-s8",
                             "int4-asym-g128-2of4",
                             "int8-asym-g256-2of4"}) {
    for (const int end : {0, 1}) {
      for (const float sign : {-1.0f, 1.0f}) {
        Problem p(scheme, {16, 512}, 5, one_);
        const auto codes = p.weight.codes.mutable_data<std::uint8_t>();
        std::fill(codes.begin(), codes.end(), static_cast<std::uint8_t>(end == 0 ? 0 : 255));
        p.linear = PackedLinear::pack(p.weight, one_);
        std::fill(p.x.begin(), p.x.end(), sign * 3.0f);
        quantize_input(p.x.data(), 5, 512, 512, p.linear.needs(), p.input, one_);
        ASSERT_EQ(p.input.codes(0)[0], static_cast<int>(sign * 127));
        const auto result =
            testing::compare(run(*variant_, p, 5, one_), packed_linear_reference(p.weight, p.input),
                             packed_linear_chain(p.linear));
        EXPECT_EQ(result.bad, 0) << scheme << " codes " << end << " sign " << sign << " worst "
                                 << result.worst;
      }
    }
  }
}

TEST_P(PackedLinearVariant, MixedSignsDoNotSaturate) {
  Problem p("int8-asym-g256", {16, 512}, 1, one_);
  const auto codes = p.weight.codes.mutable_data<std::uint8_t>();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = i % 4 < 2 ? 255 : 0;  // pairs of products that all have one sign
  }
  p.linear = PackedLinear::pack(p.weight, one_);
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    p.x[i] = i % 4 < 2 ? 1.0f : -1.0f;
  }
  quantize_input(p.x.data(), 1, 512, 512, p.linear.needs(), p.input, one_);
  const auto result =
      testing::compare(run(*variant_, p, 1, one_), packed_linear_reference(p.weight, p.input),
                       packed_linear_chain(p.linear));
  EXPECT_EQ(result.bad, 0) << result.worst;
}

TEST_P(PackedLinearVariant, NanAndInfinityReachEveryOutputOfTheirTokenOnly) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    Problem p("int4-sym-g32", {20, 128}, 6, one_);
    p.x[2 * 128 + 70] = bad;
    const std::vector<float> y = run(*variant_, p, 6, one_);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), i / 20 == 2) << i;
    }
  }
}

TEST_P(PackedLinearVariant, ZeroInputGivesZeros) {
  Problem p("int4-asym-g32", {20, 128}, 6, one_);
  std::fill(p.x.begin(), p.x.begin() + 3 * 128, 0.0f);
  const std::vector<float> y = run(*variant_, p, 6, one_);
  EXPECT_TRUE(std::all_of(y.begin(), y.begin() + 3 * 20, [](float v) { return v == 0.0f; }));
  EXPECT_TRUE(std::none_of(y.begin() + 3 * 20, y.end(), [](float v) { return v == 0.0f; }));
}

TEST_P(PackedLinearVariant, PartsStandSideBySideAndNothingElseIsWritten) {
  constexpr std::int64_t kM = 5;
  constexpr std::int64_t kStride = 80;
  const Problem a("int4-sym-g64", {20, 256}, kM, one_);
  const Problem b("lut4-nf4-g64", {33, 256}, kM, one_);
  const Problem c("int4-asym-g64", {16, 256}, kM, one_);
  const PackedLinear* parts[] = {&a.linear, &b.linear, &c.linear};
  std::vector<float> y(kM * kStride, std::nanf(""));
  packed_linear(*variant_, parts, a.input, y.data(), kStride, two_);
  std::int64_t column = 0;
  for (const Problem* p : {&a, &b, &c}) {
    const std::vector<float> alone = run(*variant_, *p, kM, one_);
    for (std::int64_t i = 0; i < kM; ++i) {
      EXPECT_EQ(std::memcmp(&y[static_cast<std::size_t>(i * kStride + column)],
                            &alone[static_cast<std::size_t>(i * p->linear.n())],
                            static_cast<std::size_t>(p->linear.n()) * sizeof(float)),
                0);
    }
    column += p->linear.n();
  }
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = column; j < kStride; ++j) {
      EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(i * kStride + j)]));
    }
  }
}

TEST(PackedLinear, RefusesAnInputOfAnotherGrouping) {
  core::ThreadPool pool(1);
  const Problem p("int4-sym-g64", {16, 256}, 1, pool);
  QuantizedInput other;
  quantize_input(p.x.data(), 1, 256, 256, {32, {8, true, 32}}, other, pool);
  std::vector<float> y(16);
  const PackedLinear* part = &p.linear;
  EXPECT_THROW(packed_linear({&part, 1}, other, y.data(), 16, pool), core::Error);
  quantize_input(p.x.data(), 1, 256, 256, {64, {8}}, other, pool);
  EXPECT_THROW(packed_linear({&part, 1}, other, y.data(), 16, pool), core::Error);
}

TEST(Variants, NoneAfterTheChosenOneRunsHere) {
  const std::ptrdiff_t chosen = &choose_variant(nullptr) - variants().data();
  for (const Variant& variant : variants().subspan(static_cast<std::size_t>(chosen) + 1)) {
    EXPECT_FALSE(variant.runs_here()) << variant.name;
  }
}

TEST(Variants, NamesAreChosenOrRefused) {
  EXPECT_STREQ(choose_variant("scalar").name, "scalar");
  EXPECT_TRUE(choose_variant("").runs_here());
  EXPECT_TRUE(choose_variant(nullptr).runs_here());
  EXPECT_THROW(choose_variant("sse9"), core::Error);
  for (const Variant& variant : variants()) {
    if (!variant.runs_here()) {
      EXPECT_THROW(choose_variant(variant.name), core::Error) << variant.name;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
