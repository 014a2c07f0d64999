#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/block_sparse.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/test_problems.h"

// Tiles of which two of each four codes are stored, beside those of the same weight with its zeros.
// packed_linear_test.cpp walks them over schemes, shapes and batches.
namespace nibble::ops::cpu {
namespace {

using formats::PackedWeight;

/// The weight with its zeros.
PackedWeight full_weight(const PackedWeight& weight) {
  formats::PackedWeightBuilder builder(formats::full_scheme(weight.scheme), weight.n, weight.k);
  const auto groups = static_cast<std::size_t>(formats::groups_per_row(weight.scheme, weight.k));
  for (std::int64_t row = 0; row < weight.n; ++row) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.k));
    std::vector<std::uint8_t> zeros(groups);
    std::vector<float> scales(groups);
    formats::unpack_codes(weight, row, codes);
    formats::unpack_zeros(weight, row, zeros);
    formats::unpack_scales(weight, row, scales);
    for (std::size_t g = 0; g < groups; ++g) {
      builder.set_group(row, static_cast<std::int64_t>(g), {scales[g], zeros[g]});
    }
    builder.set_codes(row, codes);
  }
  return builder.finish();
}

std::vector<float> run(const Variant& variant, const PackedLinear& linear,
                       const std::vector<float>& x, std::int64_t m) {
  core::ThreadPool pool(1);
  QuantizedInput input;
  quantize_input(variant, x.data(), m, linear.k(), linear.k(), linear.needs(), input, pool);
  std::vector<float> y(static_cast<std::size_t>(m * linear.n()), std::nanf(""));
  const PackedLinear* part = &linear;
  packed_linear(variant, {&part, 1}, input, y.data(), linear.n(), pool);
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class F>
void for_each_variant(F f) {
  for (const Variant& variant : variants()) {
    if (variant.runs_here()) {
      SCOPED_TRACE(variant.name);
      f(variant);
    }
  }
}

TEST(TwoOfFourTiles, GiveTheBitsOfTheFullWeight) {
  core::ThreadPool pool(2);
  for (const std::string scheme :
       {"int4-sym-g128-2of4", "int4-asym-g96-2of4", "int8-sym-row-2of4-a8", "int8-asym-g64-2of4"}) {
    for (const std::int64_t k : {772, 1408}) {
      SCOPED_TRACE(scheme + " of " + std::to_string(k));
      const PackedWeight weight = testing::random_weight(scheme, 33, k, 7);
      const PackedLinear kept = PackedLinear::pack(weight, pool);
      const PackedLinear full = PackedLinear::pack(full_weight(weight), pool);
      EXPECT_LT(kept.bytes(),
                (scheme.starts_with("int4") ? 0.82 : 0.66) * static_cast<double>(full.bytes()));
      for (const std::int64_t m : {1, 4, 16, 17, 33}) {
        const std::vector<float> x = testing::random_input(m, k, 3);
        for_each_variant([&](const Variant& variant) {
          EXPECT_TRUE(same_bits(run(variant, kept, x, m), run(variant, full, x, m))) << m;
        });
      }
    }
  }
}

TEST(TwoOfFourTiles, PlantedFaultsAreSeen) {
  core::ThreadPool pool(1);
  const PackedWeight whole = testing::random_weight("int4-asym-g128-2of4", 64, 1024, 7);
  const std::vector<float> x = testing::random_input(2, 1024, 3);
  for_each_variant([&](const Variant& variant) {
    const std::vector<float> right = run(variant, PackedLinear::pack(whole, pool), x, 2);
    const auto changes = [&](core::Tensor PackedWeight::*part, std::size_t byte, int value) {
      PackedWeight weight = whole;
      weight.*part = core::Tensor::zeros(core::DType::kU8, (whole.*part).shape());
      std::memcpy((weight.*part).mutable_raw(), (whole.*part).raw(),
                  static_cast<std::size_t>((whole.*part).bytes()));
      std::uint8_t& at = (weight.*part).mutable_data<std::uint8_t>()[byte];
      at = static_cast<std::uint8_t>(at ^ value);
      return !same_bits(run(variant, PackedLinear::pack(weight, pool), x, 2), right);
    };
    EXPECT_TRUE(changes(&PackedWeight::codes, 100, 1)) << "one code bit";
    EXPECT_TRUE(changes(&PackedWeight::zeros, 7, 1)) << "one zero point";
    const int indices = whole.indices.data<std::uint8_t>()[40] & 15;
    EXPECT_TRUE(changes(&PackedWeight::indices, 40, indices ^ (indices == 4 ? 14 : 4)))
        << "which two of four";
    EXPECT_FALSE(changes(&PackedWeight::codes, 100, 0));
  });
}

TEST(TwoOfFourTiles, AreMappedAgain) {
  core::ThreadPool pool(1);
  const PackedWeight weight = testing::random_weight("int4-asym-g32-2of4", 40, 320, 7);
  const PackedLinear made = PackedLinear::pack(weight, pool);
  EXPECT_EQ(packed_plan(weight).tile_bytes, std::ssize(made.stored().tiles));
  const PackedLinear view = PackedLinear::view(weight, made.stored(), {}, nullptr);
  const std::vector<float> x = testing::random_input(3, 320, 3);
  EXPECT_TRUE(same_bits(run(variants().front(), view, x, 3), run(variants().front(), made, x, 3)));
  EXPECT_THROW(PackedLinear::view(full_weight(weight), made.stored(), {}, nullptr), core::Error);
}

}  // namespace
}  // namespace nibble::ops::cpu
