#include "ops/gradient/rounded_input.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/format.h"
#include "formats/fp4/e2m1_numbers.h"
#include "ops/gradient/gradient_ops.h"

// Layers that round what they read: the pass through them is the packed layer's own, and so is the
// input that their gradients see.
namespace nibble::ops::gradient {
namespace {

using cpu::Matrix;

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kInputs = 320;
constexpr std::int64_t kOutputs = 24;

class Rounding : public testing::TestWithParam<const char*> {
 protected:
  Rounding() {
    std::vector<float> w(kOutputs * kInputs);
    std::generate(w.begin(), w.end(), [&] { return random_.normal(); });
    formats::PackedWeight weight =
        formats::round_to_nearest(w, kOutputs, kInputs, formats::parse_scheme(GetParam()));
    if (weight.scheme.activation.stored_scale) {
      weight = formats::with_input_scale(std::move(weight), 0.015f);
    }
    set_.id = 0;
    set_.parts.push_back({"model.layers.0.mlp.down_proj", std::move(weight), {}});
    ops_.prepare(set_);
  }

  // One row has nothing but small values, one an outlier.
  Matrix inputs() {
    Matrix x = ops_.matrix(kRows, kInputs);
    std::generate_n(x.data(), kRows * kInputs, [&] { return random_.normal() + 0.4f; });
    std::for_each(x.row(1), x.row(2), [](float& value) { value *= 1e-3f; });
    x.row(2)[7] = 17.0f;
    return x;
  }

  core::Random random_{5};
  cpu::CpuOps ops_{{2, ActivationPrecision::kFloat}};
  LinearSet set_;
};

TEST_P(Rounding, IsThatOfThePackedLayer) {
  const Matrix x = inputs();
  const auto rounding = rounding_of(set_);
  ASSERT_TRUE(rounding);
  const Matrix rounded = rounded_input(x, *rounding, ops_);
  GradientOps tape(ops_);
  const Variable y = tape.linear(tape.variable(ops_.copy(x)), set_);
  std::vector<float> w(kInputs);
  for (std::int64_t n = 0; n < kOutputs; ++n) {
    formats::decode_row(set_.parts[0].weight, n, w);
    for (std::int64_t i = 0; i < kRows; ++i) {
      double sum = 0;
      double size = 0;
      for (std::int64_t k = 0; k < kInputs; ++k) {
        const double product =
            static_cast<double>(rounded.row(i)[k]) * w[static_cast<std::size_t>(k)];
        sum += product;
        size += std::abs(product);
      }
      EXPECT_NEAR(y.value().row(i)[n], sum, 2e-6 * size) << i << " " << n;
    }
  }
}

TEST_P(Rounding, IsPassedStraightThrough) {
  const Matrix x = inputs();
  const auto rounding = rounding_of(set_);
  const Matrix rounded = rounded_input(x, *rounding, ops_);
  GradientOps tape(ops_);
  int calls = 0;
  tape.set_observer([&](const LinearSet&, const Matrix& read, const Matrix&) {
    ++calls;
    EXPECT_TRUE(std::equal(read.values().begin(), read.values().end(), rounded.values().begin()));
  });
  const Variable from = tape.variable(ops_.copy(x));
  const Variable y = tape.linear(from, set_);
  Matrix ones = ops_.matrix(kRows, kOutputs);
  std::fill_n(ones.data(), kRows * kOutputs, 1.0f);
  tape.backward(y, std::move(ones));
  EXPECT_EQ(calls, 1);
  std::vector<double> sums(kInputs);  // of each column of the weight
  std::vector<float> w(kInputs);
  for (std::int64_t n = 0; n < kOutputs; ++n) {
    formats::decode_row(set_.parts[0].weight, n, w);
    for (std::size_t k = 0; k < w.size(); ++k) {
      sums[k] += w[k];
    }
  }
  int cut = 0;
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t k = 0; k < kInputs; ++k) {
      const float slope = from.gradient().row(i)[k];
      const bool is_cut = slope == 0.0f;
      cut += is_cut ? 1 : 0;
      const auto& activation = rounding->activation;
      const std::int64_t group = activation.group == 0 ? kInputs : activation.group;
      const float* const first = rounded.row(i) + k / group * group;
      const auto [low, high] = std::minmax_element(first, first + group);
      const float value = rounded.row(i)[k];
      if (!is_cut) {
        EXPECT_NEAR(slope, sums[static_cast<std::size_t>(k)], 1e-4);
        // A value within the range is at most half a step away.
        const float reach = std::max(*high - *low, 2 * std::max(*high, -*low));
        const bool e2m1 = activation.type == &formats::kE2m1Numbers;  // its last step: from 4 to 6
        const float step = activation.stored_scale ? rounding->scale
                           : e2m1                  ? reach / 6
                                  : reach / static_cast<float>((1 << activation.bits) - 2);
        EXPECT_LE(std::abs(value - from.value().row(i)[k]), 0.51f * step) << "not cut";
      } else {
        EXPECT_TRUE(value == *low || value == *high) << "cut, but not at an end of its range";
      }
    }
  }
  EXPECT_EQ(cut > 0, rounding->cuts()) << cut;
  EXPECT_LT(cut, kRows * kInputs / 4);
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, Rounding,
    testing::Values("int4-sym-row-a4", "int4-asym-row-a4-asym", "int4-sym-row-a8",
                    "int8-sym-row-a8", "int8-sym-row-a8-asym", "int8-sym-row-a8o",
                    "int8-sym-row-a8s", "int4-sym-g32-a4g64", "int4-sym-row-a4c0.8",
                    "int4-asym-g64-a4g64c0.9-asym", "int4-sym-row-a3", "lut4-fp4-g64-afp4g64c0.9",
                    "int4-sym-row-afp4"),
    [](const auto& parameter) {
      std::string name = parameter.param;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
      return name;
    });

LinearSet two_parts(const char* first, const char* second) {
  const std::vector<float> w(64, 1.0f);
  LinearSet set;
  set.id = 0;
  for (const char* scheme : {first, second}) {
    set.parts.push_back(
        {scheme, formats::round_to_nearest(w, 1, 64, formats::parse_scheme(scheme)), {}});
  }
  return set;
}

TEST(RoundingOfSets, IsNoneOfLayersInFloat) {
  EXPECT_FALSE(rounding_of(two_parts("f32", "int4-sym-row")));
}

TEST(RoundingOfSets, IsRefusedWhereLayersDisagree) {
  EXPECT_THROW((void)rounding_of(two_parts("int4-sym-row-a4", "int8-sym-row-a8")), core::Error);
}

// Without a layout such a layer would read its input in float.
TEST(RoundingOfSets, IsRefusedWhereNoLayoutWasMade) {
  cpu::CpuOps ops({1, ActivationPrecision::kFloat});
  GradientOps tape(ops);
  const LinearSet set = two_parts("int4-sym-row-a4", "int4-sym-row-a4");
  EXPECT_THROW((void)tape.linear(tape.variable(ops.zeros(1, 64)), set), core::Error);
}

}  // namespace
}  // namespace nibble::ops::gradient
