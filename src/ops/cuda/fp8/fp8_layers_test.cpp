// Layers with E4M3 weights on a GPU against double precision.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/float8.h"
#include "core/random.h"
#include "core/random_values_for_tests.h"
#include "device/cuda/check.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "formats/format.h"
#include "formats/fp8/fp8_codes.h"
#include "ops/cpu/fp8/fp8_linear.h"
#include "ops/cuda/cuda_layers_for_tests.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/medium_batch/medium_batch.h"
#include "ops/input_transform.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

LinearSet set_of(std::vector<formats::PackedWeight> weights) {
  LinearSet set;
  set.id = 0;
  for (formats::PackedWeight& weight : weights) {
    set.parts.push_back({"layer", std::move(weight), {}});
  }
  return set;
}

constexpr float kSmallIntegers[] = {0, 1, -1, 2, -2};

class Fp8Layers : public CudaLayers {
 protected:
  // Every product, in double precision: its error is within `error` of the sum of magnitudes.
  void check(const std::string& scheme, std::int64_t n, std::int64_t k, std::int64_t m,
             double error) {
    const auto weight = formats::round_to_nearest(core::normal_values(n * k, 1), n, k,
                                                  formats::parse_scheme(scheme));
    std::vector<float> x = core::normal_values(m * k, 2);
    const std::vector<float> y = run(set_of({weight}), x, m);
    ASSERT_EQ(std::ssize(y), m * n);
    std::vector<float> scales(static_cast<std::size_t>(m), 1.0f);
    const InputTransform transform(weight);
    for (std::int64_t i = 0; i < m && !transform.is_identity(); ++i) {
      transform.apply(
          std::span(x).subspan(static_cast<std::size_t>(i * k), static_cast<std::size_t>(k)));
    }
    if (!weight.scheme.activation.is_float()) {
      std::vector<float> rounded(x.size());
      cpu::round_to_e4m3(x.data(), m, k, rounded.data(), scales, pool_);
      x = rounded;
    }
    std::vector<float> row(static_cast<std::size_t>(k));
    for (std::int64_t j = 0; j < n; ++j) {
      formats::decode_row(weight, j, row);
      for (std::int64_t i = 0; i < m; ++i) {
        const double scale = double{scales[static_cast<std::size_t>(i)]};
        double sum = 0;
        double magnitudes = 0;
        for (std::size_t c = 0; c < row.size(); ++c) {
          const double product =
              scale * double{x[static_cast<std::size_t>(i * k) + c]} * double{row[c]};
          sum += product;
          magnitudes += std::abs(product);
        }
        ASSERT_NEAR(y[static_cast<std::size_t>(i * n + j)], sum, error * magnitudes + 1e-6)
            << scheme << " " << n << " x " << k << ", " << m << " tokens: " << i << " " << j;
      }
    }
  }
};

// Ragged in each direction: rows that are no multiple of 16 or 128, columns that are none of 128.
constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {
    {16, 128}, {37, 416}, {200, 1152}, {129, 72}, {320, 2048}};

TEST_F(Fp8Layers, FloatActivationsMeetWeightsInFloat16) {
  for (const char* scheme : {"fp8-row", "fp8-tensor", "fp8-row-h8"}) {
    for (const auto& [n, k] : kShapes) {
      for (const std::int64_t m : {1, 5, 8, 9, 16, 17, 33, 70, 257}) {
        check(scheme, n, k, m, 1.2e-3);  // both are rounded to float16
      }
    }
  }
}

TEST_F(Fp8Layers, RoundedActivationsMeetThemInE4m3) {
  if (!medium_batch_runs()) {
    GTEST_SKIP() << "needs the warpgroup products of sm_90a";
  }
  for (const char* scheme : {"fp8-row-afp8", "fp8-tensor-afp8", "fp8-row-afp8-h8"}) {
    for (const auto& [n, k] : kShapes) {
      for (const std::int64_t m : {1, 5, 33, 70, 257}) {
        check(scheme, n, k, m, 0x1p-9);  // sums keep about 14 bits
      }
    }
  }
}

// Weights of -2 to 2 whose codes are these numbers, the first input's 0; `values` are theirs.
formats::PackedWeight small_integers(const std::string& scheme, std::int64_t rows,
                                     std::int64_t inputs, std::vector<float>& values) {
  constexpr std::uint8_t kCodes[] = {0x00, 0x38, 0xb8, 0x40, 0xc0};
  core::Random random(4);
  formats::PackedWeightBuilder builder(formats::parse_scheme(scheme), rows, inputs);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(inputs));
  for (std::int64_t j = 0; j < rows; ++j) {
    for (std::size_t c = 0; c < codes.size(); ++c) {
      const std::size_t value = c == 0 ? 0 : static_cast<std::size_t>(random.below(5));
      codes[c] = kCodes[value];
      values.push_back(kSmallIntegers[value]);
    }
    builder.set_group(j, 0, {1.0f, 0});
    builder.set_codes(j, codes);
  }
  return builder.finish();
}

// Tokens of such numbers; the first of each is `first`.
std::vector<float> small_tokens(std::int64_t m, std::int64_t inputs, float first) {
  core::Random random(5);
  std::vector<float> x(static_cast<std::size_t>(m * inputs));
  for (std::size_t at = 0; at < x.size(); ++at) {
    x[at] = at % static_cast<std::size_t>(inputs) == 0 ? first : kSmallIntegers[random.below(5)];
  }
  return x;
}

// Sums of small integers are exact in any order, and so is every bit.
TEST_F(Fp8Layers, SmallIntegersAreExact) {
  constexpr std::int64_t kInputs = 416;
  for (const char* scheme : {"fp8-row", "fp8-row-afp8"}) {
    const bool rounds = std::string(scheme) == "fp8-row-afp8";
    if (rounds && !medium_batch_runs()) {
      continue;  // needs the warpgroup products of sm_90a
    }
    for (const std::int64_t rows : {16, 150, 4500}) {  // tiles for some blocks, or several for all
      std::vector<float> w;
      const formats::PackedWeight weight = small_integers(scheme, rows, kInputs, w);
      for (const std::int64_t m : {1, 3, 16, 17, 40, 130, 300}) {
        // The largest is 448, so that the scale of a token is 1; its weights are 0.
        const std::vector<float> x = small_tokens(m, kInputs, 448.0f);
        const std::vector<float> y = run(set_of({weight}), x, m);
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < rows; ++j) {
            float sum = 0;
            for (std::int64_t c = 0; c < kInputs; ++c) {
              sum += x[static_cast<std::size_t>(i * kInputs + c)] *
                     w[static_cast<std::size_t>(j * kInputs + c)];
            }
            ASSERT_EQ(y[static_cast<std::size_t>(i * rows + j)], sum)
                << scheme << " " << rows << " rows, " << m << ": " << i << " " << j;
          }
        }
      }
    }
  }
}

// Parts that run as one, as query, key and value do.
TEST_F(Fp8Layers, PartsStandSideBySide) {
  constexpr std::int64_t kInputs = 256;
  constexpr std::int64_t kTokens = 20;
  std::vector<formats::PackedWeight> weights;
  for (const std::int64_t n : {64, 128, 21}) {
    weights.push_back(formats::round_to_nearest(core::normal_values(n * kInputs, 7), n, kInputs,
                                                formats::parse_scheme("fp8-tensor")));
  }
  const std::vector<float> x = core::normal_values(kTokens * kInputs, 8);
  const std::vector<float> all = run(set_of(weights), x, kTokens);
  std::int64_t column = 0;
  for (const formats::PackedWeight& weight : weights) {
    const std::vector<float> alone = run(set_of({weight}), x, kTokens);
    for (std::int64_t i = 0; i < kTokens; ++i) {
      for (std::int64_t j = 0; j < weight.n; ++j) {
        ASSERT_EQ(all[static_cast<std::size_t>(i * (64 + 128 + 21) + column + j)],
                  alone[static_cast<std::size_t>(i * weight.n + j)]);
      }
    }
    column += weight.n;
  }
}

TEST_F(Fp8Layers, RowsBecomeTheCodesOfTheCpu) {
  for (const std::int64_t k : {4, 100, 416, 5000}) {
    constexpr std::int64_t kTokens = 9;
    std::vector<float> x = core::normal_values(kTokens * k, 3);
    std::fill_n(x.begin() + k, k, 0.0f);
    std::fill_n(x.begin() + 2 * k, k, 1e-38f);
    x[static_cast<std::size_t>(3 * k)] = INFINITY;
    x[static_cast<std::size_t>(4 * k)] = 1e30f;
    std::vector<float> rounded(x.size());
    std::vector<float> scales(kTokens);
    cpu::round_to_e4m3(x.data(), kTokens, k, rounded.data(), scales, pool_);
    const std::int64_t padded = padded_columns(k);
    std::vector<std::uint8_t> expected(static_cast<std::size_t>(kTokens * padded));
    for (std::int64_t i = 0; i < kTokens; ++i) {
      for (std::int64_t c = 0; c < k; ++c) {
        constexpr std::int64_t kPlace[] = {0, 2, 1, 3};
        const std::int64_t at = c / 32 * 32 + 16 * (c % 8 / 4) + 4 * (c % 32 / 8) + kPlace[c % 4];
        expected[static_cast<std::size_t>(i * padded + at)] =
            core::to_e4m3(rounded[static_cast<std::size_t>(i * k + c)]).bits;
      }
    }
    const Buffer in = Buffer::of<float>(x);
    const Buffer codes(kTokens * padded);
    const Buffer out_scales(kTokens * 4);
    InputTarget target;
    target.form = InputForm::kByteTiles;
    target.type = &formats::kFp8Codes;
    target.codes = codes.as<std::int8_t>();
    target.scales = out_scales.as<float>();
    device::cuda::Stream stream;
    cuda::input(in.as<float>(), target, kTokens, k, stream.get());
    stream.synchronize();
    EXPECT_EQ(codes.values<std::uint8_t>(), expected) << k;
    const auto made = out_scales.values<float>();
    for (std::size_t i = 0; i < made.size(); ++i) {
      EXPECT_TRUE(made[i] == scales[i] || (std::isnan(made[i]) && std::isnan(scales[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
