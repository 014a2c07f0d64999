#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/float16.h"
#include "core/random.h"
#include "core/random_values_for_tests.h"
#include "core/tensor.h"
#include "ops/cpu/dense/emulated_floats_for_tests.h"
#include "ops/cpu/dense/tiled_linear.h"

// Tile registers, emulated and of the CPU where it has them, make the same bits without panels of
// weights as emulated ones make with them.
namespace nibble::ops::cpu {
namespace {

using core::DType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> results(const FloatTiles& tiles, std::span<const float> x, std::int64_t m,
                           const formats::PackedWeight& weight) {
  core::ThreadPool pool(2);
  std::vector<float> y(static_cast<std::size_t>(m * weight.n));
  tiled_linear(tiles, x.data(), m, weight.k, weight, y.data(), weight.n, pool);
  return y;
}

/// One to sixteen tokens, by all that runs here, with none, some, and all numbers of them without
/// panels, beside emulated tiles.
void expect_bits_of_tiles(std::span<const float> x, const formats::PackedWeight& weight,
                          const std::string& what) {
  const std::vector<float> expected =
      results(with_limit(emulated_floats(), 0), x, kGroupTokens, weight);
  for (const FloatTiles* const tiles : float_tiles_of_tests()) {
    for (const auto& [unpanelled, step] : {std::pair{0, 4}, {7, 2}, {16, 1}}) {
      const FloatTiles limited = with_limit(*tiles, unpanelled);
      for (std::int64_t m = 1; m <= kGroupTokens; m += step) {
        const std::vector<float> y = results(limited, x, m, weight);
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(expected[i]))
              << what << ", " << tiles->name << ", " << m << " tokens, up to " << unpanelled
              << " without panels, number " << i << ": " << y[i] << ", not " << expected[i];
        }
      }
    }
  }
}

formats::PackedWeight weight_of(std::span<const float> values, std::int64_t n, std::int64_t k,
                                DType type) {
  return formats::dense_weight(core::from_float32(values, {n, k}, type));
}

TEST(FewTokens, HaveTheBitsOfTilesForEveryShape) {
  for (const auto& [n, k] : {std::pair{1, 1},
                             {5, 7},
                             {16, 32},
                             {17, 33},
                             {32, 31},
                             {33, 64},
                             {49, 95},
                             {64, 577},
                             {100, 300}}) {
    for (const DType type : {DType::kF16, DType::kBF16}) {
      const auto weight = weight_of(core::normal_values(std::int64_t{n} * k, 5), n, k, type);
      const std::vector<float> x = core::normal_values(kGroupTokens * k, 11);
      expect_bits_of_tiles(x, weight, std::to_string(n) + " x " + std::to_string(k));
    }
  }
}

/// Numbers 2^exponent and around, some of them zeros of both signs, or subnormal.
std::vector<float> small_values(std::int64_t count, int exponent, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    const auto spread = static_cast<int>(random.below(24)) - 12;
    value = std::ldexp(random.normal(), exponent + spread);
    if (random.below(16) == 0) {
      value = random.below(2) == 0 ? 0.0f : -0.0f;
    }
  }
  return values;
}

// Products and sums on both sides of 2^-126.
TEST(FewTokens, HaveTheBitsOfTilesWhereNumbersUnderflow) {
  constexpr std::int64_t kRows = 40;
  constexpr std::int64_t kInputs = 100;
  for (const auto& [type, of_weight, of_input] : {std::tuple{DType::kBF16, -60, -66},
                                                  {DType::kBF16, -60, -58},
                                                  {DType::kBF16, -126, 0},
                                                  {DType::kBF16, -10, -126},
                                                  {DType::kBF16, 4, -135},
                                                  {DType::kF16, -8, -118},
                                                  {DType::kF16, -14, -112},
                                                  {DType::kF16, -24, -95},
                                                  {DType::kF16, 3, -140}}) {
    const auto weight =
        weight_of(small_values(kRows * kInputs, of_weight, 5), kRows, kInputs, type);
    expect_bits_of_tiles(small_values(kGroupTokens * kInputs, of_input, 6), weight,
                         "2^" + std::to_string(of_weight) + " x 2^" + std::to_string(of_input));
  }
}

// 2^-126 - 1.5 2^-151 is nearer to 2^-126 than to the subnormal number before, but counts as 0.
TEST(FewTokens, CountAsZeroWhatIsTinyBeforeItIsSubnormal) {
  constexpr std::int64_t kInputs = 40;
  std::vector<float> w(kInputs);
  std::vector<float> x(kGroupTokens * kInputs);
  w[0] = 0x1p-60f;
  w[2] = 0x1p-100f;
  w[32] = 1;
  for (std::int64_t i = 0; i < kGroupTokens; ++i) {
    float* const row = x.data() + i * kInputs;
    row[0] = 0x1p-66f;
    row[2] = i % 2 == 0 ? -0x1.8p-51f : -0x1p-51f;
    row[32] = 0x1p-100f;
  }
  const auto weight = weight_of(w, 1, kInputs, DType::kBF16);
  const std::vector<float> y = results(with_limit(emulated_floats(), 0), x, kGroupTokens, weight);
  EXPECT_EQ(y[0], 0x1p-100f);
  EXPECT_EQ(y[1], 0x1p-100f);
  expect_bits_of_tiles(x, weight, "beside 2^-126");
  x[32] = x[kInputs + 32] = 0;
  const std::vector<float> alone =
      results(with_limit(emulated_floats(), 0), x, kGroupTokens, weight);
  EXPECT_EQ(alone[0], 0.0f);
  EXPECT_EQ(alone[1], 0x1p-126f);
  expect_bits_of_tiles(x, weight, "2^-126");
}

// Infinities, NaN, and what leaves the range of digits or sums, in weights and inputs.
TEST(FewTokens, HaveTheBitsOfTilesWhereNumbersAreNotFinite) {
  constexpr std::int64_t kRows = 35;
  constexpr std::int64_t kInputs = 70;
  for (const DType type : {DType::kF16, DType::kBF16}) {
    std::vector<float> w = core::normal_values(kRows * kInputs, 5);
    std::vector<float> x = core::normal_values(kGroupTokens * kInputs, 4);
    w[3 * kInputs + 5] = kInfinity;
    w[4 * kInputs + 69] = -kInfinity;
    w[33 * kInputs + 1] = std::nanf("");
    w[20 * kInputs + 2] = 65504;  // of float16; its higher digit is 65536
    x[1 * kInputs + 8] = kInfinity;
    x[2 * kInputs + 9] = std::nanf("");
    x[3 * kInputs + 10] = std::bit_cast<float>(0x7fffffffu);  // rounds to -0
    x[9 * kInputs] = std::numeric_limits<float>::max();       // rounds to infinity
    x[14 * kInputs] = 0.9f * std::numeric_limits<float>::max();
    expect_bits_of_tiles(x, weight_of(w, kRows, kInputs, type), "not finite");
  }
}

// All numbers of float16 as weights, and of BF16, finite or not.
TEST(FewTokens, HaveTheBitsOfTilesForAllWeights) {
  constexpr std::int64_t kInputs = 1024;
  for (const DType type : {DType::kF16, DType::kBF16}) {
    core::Tensor all = core::Tensor::zeros(type, {0x10000 / kInputs, kInputs});
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
      const auto bits = static_cast<std::uint16_t>(i * 40503u);  // odd: all of them, mixed
      std::memcpy(all.mutable_raw() + std::size_t{2} * i, &bits, 2);
    }
    std::vector<float> x = core::normal_values(kGroupTokens * kInputs, 8);
    for (std::size_t i = 0; i < x.size(); i += 3) {
      x[i] = 0;
    }
    const auto weight = formats::dense_weight(std::move(all));
    expect_bits_of_tiles(x, weight, "all weights");
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
