#include "ops/cpu/fp8/fp8_linear.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/float16.h"
#include "core/float8.h"
#include "core/random_values_for_tests.h"
#include "formats/format.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/linear/linear_kernels.h"

namespace nibble::ops::cpu {
namespace {

formats::PackedWeight weight_of(const std::string& scheme, std::int64_t n, std::int64_t k) {
  return formats::round_to_nearest(core::normal_values(n * k, 5), n, k,
                                   formats::parse_scheme(scheme));
}

// In double precision and plain loops; and the sums of magnitudes.
struct Reference {
  std::vector<double> y;
  std::vector<double> magnitudes;

  Reference(const std::vector<float>& x, std::int64_t m, const formats::PackedWeight& weight,
            const std::vector<float>& token_scales) {
    std::vector<float> row(static_cast<std::size_t>(weight.k));
    y.resize(static_cast<std::size_t>(m * weight.n));
    magnitudes.resize(y.size());
    for (std::int64_t j = 0; j < weight.n; ++j) {
      formats::decode_row(weight, j, row);
      for (std::int64_t i = 0; i < m; ++i) {
        const double scale =
            token_scales.empty() ? 1.0 : double{token_scales[static_cast<std::size_t>(i)]};
        const auto at = static_cast<std::size_t>(i * weight.n + j);
        for (std::size_t c = 0; c < row.size(); ++c) {
          const double product =
              scale * double{x[static_cast<std::size_t>(i * weight.k) + c]} * double{row[c]};
          y[at] += product;
          magnitudes[at] += std::abs(product);
        }
      }
    }
  }
};

TEST(Fp8Linear, IsTheReferenceForEveryShapeAndGranularity) {
  core::ThreadPool pool(2);
  for (const auto& [n, k] : {std::pair{1, 1}, {5, 7}, {33, 64}, {100, 333}, {64, 1024}}) {
    for (const char* scheme : {"fp8-row", "fp8-tensor"}) {
      const formats::PackedWeight weight = weight_of(scheme, n, k);
      for (const std::int64_t m : {1, 3, 12, 13, 40}) {
        for (const bool scaled : {false, true}) {
          const std::vector<float> x = core::normal_values(m * k, 11);
          const std::vector<float> scales =
              scaled ? core::normal_values(m, 12) : std::vector<float>();
          const std::int64_t ldy = n + 2;
          std::vector<float> y(static_cast<std::size_t>(m * ldy), std::nanf(""));
          fp8_linear(x.data(), m, weight, scales, y.data(), ldy, pool);
          const Reference expected(x, m, weight, scales);
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              const auto at = static_cast<std::size_t>(i * n + j);
              ASSERT_NEAR(y[static_cast<std::size_t>(i * ldy + j)], expected.y[at],
                          1e-6 * expected.magnitudes[at])
                  << scheme << " " << n << " x " << k << ", m " << m << ", " << i << " " << j;
            }
            EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(i * ldy + n)]));
          }
        }
      }
    }
  }
}

// More tokens than pass a panel of weights at a time.
TEST(Fp8Linear, ManyRowsAreThoseOfFew) {
  core::ThreadPool pool(2);
  constexpr std::int64_t kRows = 600;
  constexpr std::int64_t kOutputs = 35;
  constexpr std::int64_t kInputs = 50;
  const formats::PackedWeight weight = weight_of("fp8-tensor", kOutputs, kInputs);
  const std::vector<float> x = core::normal_values(kRows * kInputs, 4);
  const std::vector<float> scales = core::normal_values(kRows, 6);
  std::vector<float> y(static_cast<std::size_t>(kRows * kOutputs));
  fp8_linear(x.data(), kRows, weight, scales, y.data(), kOutputs, pool);
  for (std::int64_t i = 0; i < kRows; ++i) {
    std::vector<float> alone(kOutputs);
    fp8_linear(x.data() + i * kInputs, 1, weight,
               std::span(scales).subspan(static_cast<std::size_t>(i), 1), alone.data(), kOutputs,
               pool);
    ASSERT_TRUE(std::equal(alone.begin(), alone.end(), y.begin() + i * kOutputs)) << i;
  }
}

// Every row of any number of rows, by any number of threads, has the bits that it has alone.
TEST(Fp8Linear, RowsDoNotDependOnOneAnotherOrOnThreads) {
  core::ThreadPool one(1);
  core::ThreadPool three(3);
  constexpr std::int64_t kRows = 30;
  for (const auto& [n, k] : {std::pair{111, 96}, {20, 1089}}) {
    const formats::PackedWeight weight = weight_of("fp8-row", n, k);
    const std::vector<float> x = core::normal_values(kRows * k, 4);
    std::vector<float> alone(static_cast<std::size_t>(kRows * n));
    for (std::int64_t i = 0; i < kRows; ++i) {
      fp8_linear(x.data() + i * k, 1, weight, {}, alone.data() + i * n, n, one);
    }
    for (std::int64_t m = 1; m <= kRows; ++m) {
      std::vector<float> y(static_cast<std::size_t>(m * n));
      fp8_linear(x.data(), m, weight, {}, y.data(), n, three);
      ASSERT_TRUE(std::equal(y.begin(), y.end(), alone.begin())) << m << " rows";
    }
  }
}

TEST(Fp8Linear, ActivationsBecomeTheNearestE4m3) {
  core::ThreadPool pool(2);
  constexpr std::int64_t kInputs = 300;
  std::vector<float> x = core::normal_values(4 * kInputs, 8);
  std::fill_n(x.begin() + kInputs, kInputs, 0.0f);
  x[2 * kInputs + 7] = std::numeric_limits<float>::infinity();
  x[3 * kInputs + 7] = 1e30f;
  std::vector<float> rounded(x.size());
  std::vector<float> scales(4);
  round_to_e4m3(x.data(), 4, kInputs, rounded.data(), scales, pool);
  EXPECT_EQ(scales[1], 0.0f);
  EXPECT_TRUE(std::isnan(scales[2]));
  EXPECT_EQ(scales[3], 1e30f / 448);
  EXPECT_EQ(rounded[3 * kInputs + 7], 448.0f);
  const float largest = std::abs(*std::max_element(
      x.begin(), x.begin() + kInputs, [](float a, float b) { return std::abs(a) < std::abs(b); }));
  EXPECT_EQ(scales[0], largest / 448);
  for (std::size_t i = 0; i < kInputs; ++i) {
    EXPECT_EQ(rounded[i], core::to_float(core::to_e4m3(x[i] * (448 / largest))));
    EXPECT_NEAR(rounded[i] * scales[0], x[i],
                std::max(std::abs(x[i]) / 16, scales[0] * 0x1p-10f) * 1.0001f);
    EXPECT_EQ(rounded[kInputs + i], 0.0f);
    EXPECT_EQ(rounded[2 * kInputs + i], 0.0f);
  }
}

// The largest is 448, so that values are rounded as they are.
TEST(Fp8Linear, RoundsEveryValueAsCoreDoes) {
  std::vector<float> x;
  for (std::uint32_t code = 0; code < 0x7e; ++code) {
    const float value = core::to_float(core::E4m3{static_cast<std::uint8_t>(code)});
    const float next = core::to_float(core::E4m3{static_cast<std::uint8_t>(code + 1)});
    const float middle = (value + next) / 2;
    for (const float near : {value, middle}) {
      x.insert(x.end(), {near, std::nextafter(near, 0.0f), std::nextafter(near, 448.0f)});
    }
  }
  for (std::uint32_t bits = 0; bits < 0x5f00; ++bits) {  // float16 values to 448
    x.push_back(core::to_float(core::Fp16{static_cast<std::uint16_t>(bits)}));
  }
  x.insert(x.end(), {448.0f, 1e-40f, std::numeric_limits<float>::min()});
  const std::size_t count = x.size();
  for (std::size_t i = 0; i < count; ++i) {
    x.push_back(-x[i]);
  }
  std::vector<float> rounded(x.size());
  std::vector<float> scales(1);
  core::ThreadPool pool(1);
  round_to_e4m3(x.data(), 1, std::ssize(x), rounded.data(), scales, pool);
  EXPECT_EQ(scales[0], 1.0f);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float expected = core::to_float(core::to_e4m3(x[i]));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(rounded[i]), std::bit_cast<std::uint32_t>(expected))
        << x[i];
  }
}

TEST(Fp8Kernel, TakesE4m3WeightsWhateverActivationsAreAskedFor) {
  for (const auto activations :
       {ActivationPrecision::kInt8, ActivationPrecision::kInt16, ActivationPrecision::kFloat}) {
    for (const char* scheme : {"fp8-row", "fp8-tensor-afp8", "int8-sym-row-a8"}) {
      LayerProblem problem{{formats::parse_scheme(scheme), 64, 128}, activations};
      const bool fp8 = std::string(scheme).starts_with("fp8");
      EXPECT_EQ(choose_kernel(linear_kernels(), problem).name == "fp8", fp8) << scheme;
      for (const KernelAnswer& answer : answers_of(linear_kernels(), problem)) {
        EXPECT_FALSE(fp8 && answer.kernel.starts_with("packed") && !answer.refusal);
      }
    }
  }
}

// A layer of the table: with rounded activations both factors are E4M3 numbers.
TEST(Fp8Kernel, RoundsTheActivationsThatTheSchemeRounds) {
  constexpr std::int64_t kTokens = 14;
  constexpr std::int64_t kOutputs = 40;
  constexpr std::int64_t kInputs = 96;
  for (const std::string scheme : {"fp8-row", "fp8-row-afp8", "fp8-row-afp8-h32"}) {
    CpuOps ops({2, ActivationPrecision::kInt8});
    LinearSet set;
    set.id = 0;
    set.parts.push_back({"layer", weight_of(scheme, kOutputs, kInputs), {}});
    ops.prepare(set);
    EXPECT_EQ(ops.prepared_bytes(), 0);
    const std::vector<float> values = core::normal_values(kTokens * kInputs, 3);
    Matrix x = ops.zeros(kTokens, kInputs);
    std::copy(values.begin(), values.end(), x.data());
    CpuOps::Input input(std::move(x));
    const Matrix y = ops.linear(input, set);
    std::vector<float> inputs = values;
    std::vector<float> scales;
    const InputTransform transform(set.parts.front().weight);
    for (std::int64_t i = 0; i < kTokens && !transform.is_identity(); ++i) {
      transform.apply(std::span(inputs).subspan(static_cast<std::size_t>(i * kInputs), kInputs));
    }
    if (scheme != "fp8-row") {
      core::ThreadPool pool(1);
      scales.resize(kTokens);
      std::vector<float> rounded(inputs.size());
      round_to_e4m3(inputs.data(), kTokens, kInputs, rounded.data(), scales, pool);
      inputs = std::move(rounded);
    }
    const Reference expected(inputs, kTokens, set.parts.front().weight, scales);
    for (std::size_t at = 0; at < expected.y.size(); ++at) {
      ASSERT_NEAR(y.data()[at], expected.y[at], 1e-6 * expected.magnitudes[at]) << scheme;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
