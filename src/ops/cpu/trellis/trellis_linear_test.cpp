#include "ops/cpu/trellis/trellis_linear.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "formats/trellis/trellis_code.h"
#include "ops/cpu/cpu_features.h"
#include "ops/cpu/linear/linear_kernels.h"
#include "ops/cpu/trellis/trellis_lines.h"

namespace nibble::ops::cpu {
namespace {

struct Shape {
  std::int64_t n, k;
};
// One run; inputs that end inside a unit, a group, a panel; tiles without a neighbour.
constexpr Shape kShapes[] = {{16, 16},  {16, 48},  {32, 128}, {48, 144},
                             {80, 272}, {64, 512}, {16, 704}, {48, 1408}};
constexpr std::int64_t kBatches[] = {1, 2, 3, 5, 8, 9, 13, 33};

std::vector<std::uint8_t> random_bytes(std::int64_t count, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(random.below(256));
  }
  return bytes;
}

formats::PackedWeight random_weight(const std::string& scheme_text, Shape shape) {
  const formats::Scheme scheme = formats::parse_scheme(scheme_text);
  core::Random random(5);
  std::vector<float> scales(static_cast<std::size_t>(shape.n));
  for (float& scale : scales) {
    scale = core::to_float(core::to_fp16(0.001f + 0.01f * static_cast<float>(random.uniform())));
  }
  return formats::make_trellis_weight(
      scheme, shape.n, shape.k, random_bytes(shape.n * shape.k / 8 * scheme.code.bits, 7), scales);
}

QuantizedInput random_input(const formats::PackedWeight& weight, std::int64_t m,
                            core::ThreadPool& pool) {
  core::Random random(9);
  std::vector<float> x(static_cast<std::size_t>(m * weight.k));
  for (float& value : x) {
    value = random.normal();
  }
  QuantizedInput input;
  quantize_input(x.data(), m, weight.k, weight.k, trellis_needs(weight.scheme, weight.k), input,
                 pool);
  return input;
}

// Weights by decode_row, which is the definition, in double.
struct Reference {
  std::vector<double> y;
  std::vector<double> bound;
};

Reference reference(const formats::PackedWeight& weight, const QuantizedInput& x) {
  Reference result;
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t token = 0; token < x.m(); ++token) {
    for (std::int64_t r = 0; r < weight.n; ++r) {
      formats::decode_row(weight, r, row);
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t g = 0; g < x.groups(); ++g) {
        double part = 0;
        for (std::int64_t i = g * x.group(); i < std::min((g + 1) * x.group(), weight.k); ++i) {
          part += static_cast<double>(row[static_cast<std::size_t>(i)]) *
                  x.codes(token)[g * x.group_stride() + i - g * x.group()];
        }
        sum += part * static_cast<double>(x.scales(token)[g]);
        magnitude += std::fabs(part * static_cast<double>(x.scales(token)[g]));
      }
      result.y.push_back(sum);
      const double steps = 4.0 * std::sqrt(static_cast<double>(x.groups() + 1));
      result.bound.push_back(std::ldexp(1.0, -24) * (steps * magnitude + std::fabs(sum)));
    }
  }
  return result;
}

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

// y with some columns behind each row, which stay as they are.
std::vector<float> multiply(const Variant& variant, const formats::PackedWeight& weight,
                            const QuantizedInput& x, core::ThreadPool& pool) {
  constexpr std::int64_t kBehind = 3;
  const std::int64_t ldy = weight.n + kBehind;
  std::vector<float> y(static_cast<std::size_t>(x.m() * ldy), kPoison);
  trellis_linear(variant, x, weight, y.data(), ldy, pool);
  std::vector<float> result;
  for (std::int64_t token = 0; token < x.m(); ++token) {
    const auto begin = y.begin() + token * ldy;
    result.insert(result.end(), begin, begin + weight.n);
    for (std::int64_t i = weight.n; i < ldy; ++i) {
      EXPECT_TRUE(std::isnan(begin[i]));
    }
  }
  return result;
}

TEST(TrellisLinear, EveryVariantComputesWhatTheBitsSay) {
  core::ThreadPool pool(2);
  for (const char* scheme :
       {"trellis2-row", "trellis3-row", "trellis4-row", "trellis4-tensor", "trellis4-row-a8",
        "trellis3-row-a8g32", "trellis2-row-a4g16", "trellis4-row-a8g48", "trellis4-row-h16"}) {
    for (const Shape shape : kShapes) {
      const formats::PackedWeight weight = random_weight(scheme, shape);
      for (const std::int64_t m : kBatches) {
        const QuantizedInput x = random_input(weight, m, pool);
        const Reference expected = reference(weight, x);
        std::vector<float> first;
        for (const Variant& variant : variants()) {
          if (!variant.runs_here()) {
            continue;
          }
          const std::vector<float> y = multiply(variant, weight, x, pool);
          for (std::size_t i = 0; i < y.size(); ++i) {
            ASSERT_NEAR(y[i], expected.y[i], expected.bound[i])
                << variant.name << " " << scheme << " [" << shape.n << ", " << shape.k << "] " << m
                << " tokens, element " << i;
          }
          if (first.empty()) {
            first = y;
          }
          ASSERT_EQ(std::memcmp(y.data(), first.data(), y.size() * sizeof(float)), 0)
              << variant.name << " has other bits";
        }
      }
    }
  }
}

TEST(TrellisLinear, TokensDoNotDependOnTheirBatch) {
  core::ThreadPool one(1);
  core::ThreadPool two(2);
  const formats::PackedWeight weight = random_weight("trellis3-row", {80, 272});
  const std::vector<float> many =
      multiply(active_variant(), weight, random_input(weight, 33, one), one);
  const std::vector<float> few =
      multiply(active_variant(), weight, random_input(weight, 3, two), two);
  EXPECT_EQ(std::memcmp(many.data(), few.data(), few.size() * sizeof(float)), 0);
}

TEST(TrellisLinear, RunsExpandAsTheyAreRead) {
  if (!cpu_features().avx512vbmi) {
    GTEST_SKIP() << "this machine lacks AVX512-VBMI";
  }
#if defined(__x86_64__)
  constexpr std::int64_t kRuns = 5;
  for (const int bits : {2, 3, 4}) {
    const auto bytes = random_bytes(kRuns * formats::run_bytes(bits), 31);
    std::vector<std::uint8_t> plain(kRuns * formats::kRunWeights);
    std::vector<std::uint8_t> fast(plain.size());
    expand_runs(bytes.data(), bits, kRuns, plain.data());
    expand_runs_avx512vbmi(bytes.data(), bits, kRuns, fast.data());
    EXPECT_EQ(plain, fast) << bits;
  }
#endif
}

TEST(TrellisLinear, TheTableHasAKernel) {
  const auto problem = [](ActivationPrecision activations) {
    LayerProblem layer;
    layer.linear.n = 64;
    layer.linear.k = 64;
    layer.linear.m = 1;
    layer.linear.scheme = formats::parse_scheme("trellis4-row");
    layer.activations = activations;
    return layer;
  };
  const auto taken = [](const LayerProblem& layer) -> std::string {
    for (const LinearKernel& kernel : linear_kernels()) {
      if (!kernel.refusal(layer)) {
        return kernel.name;
      }
    }
    return "none";
  };
  EXPECT_EQ(taken(problem(ActivationPrecision::kInt8)), "trellis");
  EXPECT_EQ(taken(problem(ActivationPrecision::kFloat)), "decoded");
  EXPECT_EQ(taken(problem(ActivationPrecision::kInt16)), "none");
}

}  // namespace
}  // namespace nibble::ops::cpu
