#include "ops/cuda/blocks/block_weight.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

constexpr float kHalfStep = 1.0f / 2048;  // of a float16, relative
constexpr float kLeastStep = 1.0f / (1 << 24);

/// The weights of a row as units have them: products of scales and codes, and shifts.
struct UnitRowValues {
  std::vector<float> products;
  std::vector<float> shifts;  // of groups

  UnitRowValues(const PackedWeight& block, std::int64_t n)
      : products(static_cast<std::size_t>(block.k)),
        shifts(static_cast<std::size_t>(groups_per_row(block.scheme, block.k))) {
    PackedWeight symmetric = block;
    symmetric.scheme.zero = formats::Zero::kNone;
    decode_row(symmetric, n, products);
    unpack_minima(block, n, shifts);
  }
};

/// Every weight but for the rounding of its scale and its shift.
void expect_same(const PackedWeight& weight, const std::string& what) {
  core::ThreadPool pool(1);
  const PackedWeight block = block_weight(weight, "layer", pool);
  EXPECT_EQ(block.minima.empty(), !formats::has_minima(weight.scheme)) << what;
  EXPECT_FALSE(formats::has_supers(block.scheme)) << what;
  EXPECT_FALSE(unit_refusal(block.scheme)) << what;
  EXPECT_NO_THROW(formats::validate(block, "layer")) << what;
  EXPECT_EQ(unit_format_of(block.scheme), unit_format_of(weight.scheme)) << what;
  std::vector<float> expected(static_cast<std::size_t>(weight.k));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    decode_row(weight, n, expected);
    const UnitRowValues row(block, n);
    const std::size_t group = row.products.size() / row.shifts.size();
    for (std::size_t k = 0; k < row.products.size(); ++k) {
      const float product = row.products[k];
      const float shift = row.shifts[k / group];
      const float sizes = std::fabs(product) + std::fabs(shift);
      ASSERT_NEAR(product + shift, expected[k], 1.01f * kHalfStep * sizes + 128 * kLeastStep)
          << what << ", row " << n << ", input " << k;
    }
  }
}

TEST(BlockWeight, EveryWeightStaysButForTwoRoundings) {
  for (const std::string scheme :
       {"int4-min-g32", "int8-min-g32", "int4-min-g32-s8", "int8-min-g32-s8", "int2-min-g16-s8",
        "int3-sym-g16-s8", "int8-sym-g16-s8", "lut4-row-g16-s8", "lut4-matrix-g32-s8",
        "int5-min-g32-s8", "int6-sym-g16-s8", "lut4-iq4-g32-s8"}) {
    expect_same(cpu::testing::random_weight(scheme, 5, 512, 3), scheme);
  }
}

// Codes of five bits stand in bytes around 16: inputs are not multiplied with more than 16 steps.
TEST(BlockWeight, FewCodesStandAroundTheirMiddle) {
  for (const std::string scheme :
       {"int8-min-g32-s8", "int8-min-g32", "int5-min-g32-s8", "int5-min-g32"}) {
    PackedWeight weight = cpu::testing::random_weight(scheme, 7, 256, 4);
    for (std::uint8_t& code : weight.codes.mutable_data<std::uint8_t>()) {
      code &= 31u;
    }
    expect_same(weight, scheme);
    core::ThreadPool pool(1);
    const PackedWeight block = block_weight(weight, "layer", pool);
    for (const std::uint8_t code : block.codes.data<std::uint8_t>()) {
      ASSERT_TRUE(code >= 112 && code < 144) << scheme << ": " << int{code};
    }
  }
}

TEST(BlockWeight, ScalesBeyondFloat16AreRefused) {
  PackedWeight weight = cpu::testing::random_weight("int8-sym-g16-s8", 2, 256, 5);
  weight.supers.mutable_data<core::Fp16>()[1] = core::to_fp16(60000.0f);
  weight.scales.mutable_data<std::int8_t>()[17] = 100;
  core::ThreadPool pool(1);
  try {
    block_weight(weight, "model.layers.0", pool);
    ADD_FAILURE() << "infinite scales are taken";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "layer model.layers.0: a scale or a minimum of int8-sym-g16-s8 is beyond the "
                 "range of float16; use --device cpu");
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
