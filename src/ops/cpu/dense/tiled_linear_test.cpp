#include "ops/cpu/dense/tiled_linear.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/random_values_for_tests.h"
#include "ops/cpu/dense/dense_linear.h"
#include "ops/cpu/dense/emulated_floats_for_tests.h"
#include "ops/cpu/dense/plain_float_lanes.h"
#include "ops/cpu/linear/linear_input.h"
#include "ops/cpu/matrix.h"

// The loops on emulated tiles, with plain vectors and with those of the CPU, and on the tiles of
// the CPU where it has them.
namespace nibble::ops::cpu {
namespace {

using core::DType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

formats::PackedWeight random_weight(std::int64_t n, std::int64_t k, DType type) {
  return formats::dense_weight(core::from_float32(core::normal_values(n * k, 5), {n, k}, type));
}

/// y [m, n] without gaps.
std::vector<float> results(const FloatTiles& tiles, std::span<const float> x, std::int64_t m,
                           const formats::PackedWeight& weight, core::ThreadPool& pool) {
  std::vector<float> y(static_cast<std::size_t>(m * weight.n));
  tiled_linear(tiles, x.data(), m, weight.k, weight, y.data(), weight.n, pool);
  return y;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// The bound of float_tiles.h: the part that grows with sum |w x|, and what underflow may lose.
double error_bound(std::int64_t k, double magnitude, double largest) {
  const double steps = static_cast<double>((k + kStepInputs - 1) / kStepInputs);
  return (20 + 1.1 * steps) * 0x1p-24 * magnitude + 0x1p-123 * static_cast<double>(k) * largest;
}

/// The largest error over its bound.
double worst_share(const FloatTiles& tiles, const std::vector<float>& x, std::int64_t m,
                   std::int64_t ldx, const formats::PackedWeight& weight, core::ThreadPool& pool) {
  const std::int64_t n = weight.n;
  const std::int64_t k = weight.k;
  const std::int64_t ldy = n + 2;
  std::vector<float> y(static_cast<std::size_t>(m * ldy), std::nanf(""));
  tiled_linear(tiles, x.data(), m, ldx, weight, y.data(), ldy, pool);
  std::vector<float> row(static_cast<std::size_t>(k));
  double worst = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    formats::decode_row(weight, j, row);
    for (std::int64_t i = 0; i < m; ++i) {
      double sum = 0;
      double magnitude = 0;
      double largest = 1;
      for (std::int64_t at = 0; at < k; ++at) {
        const double w = row[static_cast<std::size_t>(at)];
        const double value = x[static_cast<std::size_t>(i * ldx + at)];
        sum += w * value;
        magnitude += std::fabs(w * value);
        largest = std::max({largest, std::fabs(w), std::fabs(value)});
      }
      const double error = std::fabs(y[static_cast<std::size_t>(i * ldy + j)] - sum);
      worst = std::max(worst, error / error_bound(k, magnitude, 3 * largest));
      if (!(error >= 0)) {
        return kInfinity;  // not written
      }
    }
  }
  for (std::int64_t i = 0; i < m; ++i) {
    if (!std::isnan(y[static_cast<std::size_t>(i * ldy + n)])) {
      return kInfinity;  // wrote past its columns
    }
  }
  return worst;
}

TEST(TiledLinear, StaysWithinItsBoundForEveryShape) {
  core::ThreadPool pool(2);
  for (const FloatTiles* const tiles : float_tiles_of_tests()) {
    double worst = 0;
    for (const auto& [n, k] :
         {std::pair{1, 1}, {5, 7}, {16, 32}, {33, 31}, {97, 64}, {40, 545}, {70, 1089}}) {
      for (const DType type : {DType::kF16, DType::kBF16}) {
        const formats::PackedWeight weight = random_weight(n, k, type);
        for (const std::int64_t m : {1, 2, 5, 16, 17, 33, 70}) {
          const std::vector<float> x = core::normal_values(m * (k + 3), 11);
          const double share = worst_share(*tiles, x, m, k + 3, weight, pool);
          ASSERT_LE(share, 1) << tiles->name << ": " << m << " x " << n << " x " << k;
          worst = std::max(worst, share);
        }
      }
    }
    RecordProperty(tiles->name, std::to_string(worst));
  }
}

// More tokens than digits exist of at a time; blocks of unequal numbers of groups.
TEST(TiledLinear, TakesManyTokensInBlocks) {
  core::ThreadPool pool(2);
  for (const FloatTiles* const tiles : float_tiles_of_tests()) {
    const formats::PackedWeight weight = random_weight(300, 40, DType::kBF16);
    for (const std::int64_t m : {257, 300, 512, 530}) {
      const std::vector<float> x = core::normal_values(m * 40, 11);
      ASSERT_LE(worst_share(*tiles, x, m, 40, weight, pool), 1) << tiles->name << ' ' << m;
    }
  }
}

/// The root of the mean square of errors.
double error_of(std::span<const float> y, std::span<const double> expected) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    sum += (y[i] - expected[i]) * (y[i] - expected[i]);
  }
  return std::sqrt(sum / static_cast<double>(y.size()));
}

TEST(TiledLinear, IsAsAccurateAsFloat32) {
  core::ThreadPool pool(2);
  constexpr std::int64_t kTokens = 16;
  constexpr std::int64_t kRows = 64;
  for (const FloatTiles* const tiles : float_tiles_of_tests()) {
    for (const std::int64_t k : {128, 2048, 11008}) {
      const std::vector<float> x = core::normal_values(kTokens * k, 3);
      for (const DType type : {DType::kF16, DType::kBF16}) {
        const formats::PackedWeight weight = random_weight(kRows, k, type);
        std::vector<double> expected(kTokens * kRows);
        dense_linear_reference(x.data(), kTokens, k, weight, expected.data(), kRows);
        std::vector<float> wide(expected.size());
        dense_linear(x.data(), kTokens, k, weight, wide.data(), kRows, pool);
        const double error = error_of(results(*tiles, x, kTokens, weight, pool), expected);
        const double of_float32 = error_of(wide, expected);
        RecordProperty(std::string(tiles->name) + ' ' + std::to_string(k),
                       std::to_string(error / of_float32));
        EXPECT_LE(error, 1.25 * of_float32) << tiles->name << ", " << k << " inputs";
      }
    }
  }
}

// Every row of any number of rows has the bits that it has alone, on all tiles.
TEST(TiledLinear, RowsDoNotDependOnOneAnother) {
  core::ThreadPool one(1);
  core::ThreadPool three(3);
  constexpr std::int64_t kTokens = 70;
  const FloatTiles in_panels = with_limit(emulated_floats(), 0);
  for (const auto& [n, k] : {std::pair{51, 96}, {20, 1089}}) {
    const std::vector<float> x = core::normal_values(kTokens * k, 4);
    for (const DType type : {DType::kF16, DType::kBF16}) {
      const formats::PackedWeight weight = random_weight(n, k, type);
      std::vector<float> alone;
      for (std::int64_t i = 0; i < kTokens; ++i) {
        const std::vector<float> row =
            results(in_panels, std::span(x).subspan(i * k, k), 1, weight, one);
        alone.insert(alone.end(), row.begin(), row.end());
      }
      for (const FloatTiles* const tiles : float_tiles_of_tests()) {
        for (const std::int64_t m : {1, 2, 15, 16, 17, 31, 47, 70}) {
          ASSERT_TRUE(same_bits(results(*tiles, x, m, weight, three),
                                std::span(alone).first(static_cast<std::size_t>(m * n))))
              << tiles->name << ": " << m << " rows of " << n << " x " << k;
        }
      }
    }
  }
}

// What a rank makes that has some of the rows.
TEST(TiledLinear, OutputsDoNotDependOnOneAnother) {
  core::ThreadPool pool(2);
  constexpr std::int64_t kInputs = 300;
  constexpr std::int64_t kRows = 90;
  constexpr std::int64_t kTokens = 3;
  const std::vector<float> x = core::normal_values(kTokens * kInputs, 4);
  for (const FloatTiles* const tiles : float_tiles_of_tests()) {
    for (const DType type : {DType::kF16, DType::kBF16}) {
      const formats::PackedWeight whole = random_weight(kRows, kInputs, type);
      const std::vector<float> expected = results(*tiles, x, kTokens, whole, pool);
      for (const auto& [begin, count] : {std::pair{0, 45}, {45, 45}, {17, 40}, {89, 1}}) {
        core::Tensor rows = core::Tensor::zeros(type, {count, kInputs});
        std::memcpy(rows.mutable_raw(), whole.dense.raw() + begin * kInputs * 2,
                    static_cast<std::size_t>(rows.bytes()));
        const auto part = formats::dense_weight(std::move(rows));
        const std::vector<float> y = results(*tiles, x, kTokens, part, pool);
        for (std::int64_t i = 0; i < kTokens; ++i) {
          EXPECT_TRUE(same_bits(std::span(y).subspan(i * count, count),
                                std::span(expected).subspan(i * kRows + begin, count)))
              << tiles->name << ": rows from " << begin << " on";
        }
      }
    }
  }
}

// Tokens and rows that are not finite, or that the digits or the sums of digits do not hold.
TEST(TiledLinear, GivesWhatFloat32GivesWhereSumsAreNotFinite) {
  core::ThreadPool pool(2);
  constexpr std::int64_t kInputs = 70;
  constexpr std::int64_t kTokens = 20;
  constexpr std::int64_t kRows = 40;
  const float largest = std::numeric_limits<float>::max();
  for (const FloatTiles* const tiles : float_tiles_of_tests()) {
    for (const DType type : {DType::kF16, DType::kBF16}) {
      std::vector<float> w = core::normal_values(kRows * kInputs, 5);
      std::vector<float> x = core::normal_values(kTokens * kInputs, 4);
      w[3 * kInputs + 5] = kInfinity;
      w[4 * kInputs + 69] = -kInfinity;
      w[38 * kInputs + 1] = std::nanf("");
      std::fill_n(w.begin() + 7 * kInputs, kInputs, 0.0f);
      x[1 * kInputs + 8] = kInfinity;
      x[2 * kInputs + 9] = std::nanf("");
      x[3 * kInputs + 10] = std::bit_cast<float>(0x7fffffffu);  // rounds to -0
      x[17 * kInputs] = largest;                                // rounds to infinity
      x[18 * kInputs] = 0.9f * largest;                         // products leave the range
      const auto weight = formats::dense_weight(core::from_float32(w, {kRows, kInputs}, type));
      const std::vector<float> y = results(*tiles, x, kTokens, weight, pool);
      std::vector<float> expected(y.size());
      dense_linear(x.data(), kTokens, kInputs, weight, expected.data(), kRows, pool);
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (std::isfinite(expected[i]) && i / kRows < 17) {
          EXPECT_NEAR(y[i], expected[i], 1e-4) << tiles->name << ' ' << i;
        } else {
          EXPECT_TRUE(y[i] == expected[i] || (std::isnan(y[i]) && std::isnan(expected[i])) ||
                      std::fabs(y[i] / expected[i] - 1) < 1e-5)
              << tiles->name << ' ' << i << ": " << y[i] << ", not " << expected[i];
        }
      }
      EXPECT_FALSE(std::isfinite(y[3]));
      EXPECT_EQ(y[17 * kRows + 7], 0.0f);
    }
  }
}

TEST(TiledLinear, LosesLittleToUnderflow) {
  core::ThreadPool pool(1);
  constexpr std::int64_t kInputs = 64;
  for (const FloatTiles* const tiles : float_tiles_of_tests()) {
    for (const DType type : {DType::kF16, DType::kBF16}) {
      const formats::PackedWeight weight = random_weight(5, kInputs, type);
      for (const int exponent : {-90, -104, -110, -120, -126, -140}) {
        std::vector<float> x = core::normal_values(2 * kInputs, 8);
        std::for_each(x.begin(), x.end(), [&](float& v) { v = std::ldexp(v, exponent); });
        EXPECT_LE(worst_share(*tiles, x, 2, kInputs, weight, pool), 1) << tiles->name << exponent;
      }
    }
  }
}

TEST(TiledLinear, LayersOfOneTypeShareTheDigitsOfTheirInput) {
  constexpr std::int64_t kInputs = 70;
  constexpr std::int64_t kTokens = 20;
  core::ThreadPool pool(2);
  LinearWorkspace workspace{pool, std::make_shared<BufferPool>(), {}};
  const std::vector<float> x = core::normal_values(kTokens * kInputs, 4);
  const FloatTiles& tiles = emulated_floats();
  for (int round = 0; round < 2; ++round) {  // the second takes the memory of the first
    Matrix values(workspace.buffers, kTokens, kInputs);
    std::copy(x.begin(), x.end(), values.data());
    LinearInput input(std::move(values));
    std::vector<const FloatDigits*> digits;
    for (const DType type : {DType::kF16, DType::kBF16, DType::kF16, DType::kBF16}) {
      const formats::PackedWeight weight = random_weight(40, kInputs, type);
      digits.push_back(&input.digits(tiles, input.values(), type == DType::kF16, workspace));
      std::vector<float> y(kTokens * 40);
      tiled_linear(tiles, *digits.back(), weight, y.data(), 40, pool);
      EXPECT_TRUE(same_bits(y, results(tiles, x, kTokens, weight, pool)));
    }
    EXPECT_EQ(digits[0], digits[2]);
    EXPECT_EQ(digits[1], digits[3]);
    EXPECT_NE(digits[0], digits[1]);
    EXPECT_EQ(workspace.spare_digits.size(), 2U);
  }
}

float digit(std::uint32_t pair, std::int64_t input) {
  return core::to_float(core::Bf16{static_cast<std::uint16_t>(pair >> 16 * (input % 2))});
}

TEST(FloatTileDigits, AreExact) {
  core::Random random(7);
  for (int round = 0; round < 20'000; ++round) {
    float x[kStepInputs];
    for (float& value : x) {
      const auto bits = static_cast<std::uint32_t>(random.below(0x100000000));
      value = std::bit_cast<float>(bits);
      if (!(std::fabs(value) >= 0x1p-103f && std::fabs(value) < 0x1.fep127f)) {
        value = 0;
      }
    }
    std::uint32_t hi[kStepPairs];
    std::uint32_t mid[kStepPairs];
    std::uint32_t lo[kStepPairs];
    PlainFloatLanes::split_inputs(x, hi, mid, lo);
    for (std::int64_t i = 0; i < kStepInputs; ++i) {
      const double high = digit(hi[i / 2], i);
      const double middle = digit(mid[i / 2], i);
      const double low = digit(lo[i / 2], i);
      ASSERT_EQ(high + middle + low, x[i]);
      ASSERT_LE(std::fabs(middle), 0x1p-8 * std::fabs(x[i]));
      ASSERT_LE(std::fabs(low), 0x1p-17 * std::fabs(x[i]));
    }
  }
}

TEST(FloatTileDigits, OfAllFloat16AreExact) {
  for (std::uint32_t first = 0; first < 0x10000; first += kStepInputs) {
    std::uint16_t w[kStepInputs];
    std::uint16_t hi[kStepInputs];
    std::uint16_t lo[kStepInputs];
    for (std::uint32_t i = 0; i < kStepInputs; ++i) {
      w[i] = static_cast<std::uint16_t>(first + i);
    }
    PlainFloatLanes::split_halves(w, hi, lo);
    for (std::int64_t i = 0; i < kStepInputs; ++i) {
      const float value = core::to_float(core::Fp16{w[i]});
      const float high = core::to_float(core::Bf16{hi[i]});
      const float low = core::to_float(core::Bf16{lo[i]});
      if (!std::isfinite(value)) {
        ASSERT_FALSE(std::isfinite(high + low));
        continue;
      }
      ASSERT_EQ(high + low, value);
      ASSERT_LE(std::fabs(low), 0x1p-8f * std::fabs(value));
      ASSERT_TRUE(low == 0 || std::fabs(low) >= 0x1p-126f);
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
