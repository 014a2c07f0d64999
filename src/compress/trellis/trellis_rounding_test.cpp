#include "compress/trellis/trellis_rounding.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/recipe/pass.h"
#include "compress/recipe/recipe.h"
#include "compress/recipe/validate.h"
#include "core/error.h"
#include "core/json.h"
#include "formats/trellis/trellis_code.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 32;
constexpr std::int64_t kInputs = 96;

std::vector<float> diagonal_of(const std::vector<float>& hessian) {
  std::vector<float> diagonal(hessian.size());
  for (std::size_t i = 0; i < hessian.size(); i += kInputs + 1) {
    diagonal[i] = hessian[i];
  }
  return diagonal;
}

formats::PackedWeight round(const std::vector<float>& w, const char* scheme,
                            const std::vector<float>& hessian, int threads = 2) {
  core::ThreadPool pool(threads);
  const InverseFactor factor = inverse_factor(hessian, kInputs, 0.01, false);
  return round_to_trellis(w, kRows, kInputs, formats::parse_scheme(scheme), factor, hessian, pool);
}

double relative_error(const std::vector<float>& w, const formats::PackedWeight& packed) {
  double squares = 0;
  for (const float value : w) {
    squares += static_cast<double>(value) * value;
  }
  std::vector<float> identity(kInputs * kInputs);
  for (std::size_t i = 0; i < identity.size(); i += kInputs + 1) {
    identity[i] = 1;
  }
  return loss(w, packed, identity) / squares;
}

// Rows of different sizes. 3,072 weights: the standard error is 3 %, and 96 weights do not tell
// their deviation exactly.
TEST(TrellisRounding, WithoutCorrelationItIsTheTrellisAlone) {
  std::vector<float> w = core::normal_values(kRows * kInputs, 21);
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] *= 0.01f * static_cast<float>(1 + i / kInputs);
  }
  const std::vector<float> hessian = diagonal_of(correlated_hessian(kInputs, 300, 4));
  EXPECT_NEAR(relative_error(w, round(w, "trellis2-row", hessian)), 0.070, 0.010);
  EXPECT_NEAR(relative_error(w, round(w, "trellis3-row", hessian)), 0.0176, 0.0025);
  EXPECT_NEAR(relative_error(w, round(w, "trellis4-row", hessian)), 0.0046, 0.0007);
}

TEST(TrellisRounding, LaterInputsMakeUpForErrors) {
  const std::vector<float> w = core::normal_values(kRows * kInputs, 22);
  const std::vector<float> hessian = correlated_hessian(kInputs, 300, 4);
  for (const char* scheme : {"trellis2-row", "trellis3-row", "trellis4-row"}) {
    const double alone = loss(w, round(w, scheme, diagonal_of(hessian)), hessian);
    const double made_up = loss(w, round(w, scheme, hessian), hessian);
    EXPECT_LT(made_up, 0.9 * alone) << scheme;
  }
}

TEST(TrellisRounding, ScalesFitTheirRows) {
  const std::vector<float> w = core::normal_values(kRows * kInputs, 23);
  const std::vector<float> hessian = correlated_hessian(kInputs, 300, 4);
  formats::PackedWeight packed = round(w, "trellis2-row", hessian);
  const double least = loss(w, packed, hessian);
  const core::Tensor fitted = packed.scales;
  for (const float factor : {0.99f, 1.01f}) {
    packed.scales = core::Tensor::zeros(core::DType::kF16, {kRows, 1});
    for (std::size_t row = 0; row < kRows; ++row) {
      packed.scales.mutable_data<core::Fp16>()[row] =
          core::to_fp16(factor * core::to_float(fitted.data<core::Fp16>()[row]));
    }
    EXPECT_GT(loss(w, packed, hessian), least) << factor;
  }
}

TEST(TrellisRounding, ThreadsDoNotMatter) {
  const std::vector<float> w = core::normal_values(kRows * kInputs, 24);
  const std::vector<float> hessian = correlated_hessian(kInputs, 300, 4);
  const formats::PackedWeight one = round(w, "trellis4-row", hessian, 1);
  const formats::PackedWeight two = round(w, "trellis4-row", hessian, 2);
  EXPECT_TRUE(std::ranges::equal(one.codes.data<std::uint8_t>(), two.codes.data<std::uint8_t>()));
}

TEST(TrellisRounding, RowsOfZerosStayZeros) {
  std::vector<float> w = core::normal_values(kRows * kInputs, 25);
  std::fill_n(w.begin() + 5 * kInputs, kInputs, 0.0f);
  const formats::PackedWeight packed =
      round(w, "trellis4-row", correlated_hessian(kInputs, 300, 4));
  std::vector<float> row(kInputs);
  formats::decode_row(packed, 5, row);
  for (const float value : row) {
    EXPECT_LT(std::fabs(value), 1e-4f);
  }
}

TEST(TrellisRounding, RefusesWhatIsNoNumber) {
  std::vector<float> w = core::normal_values(kRows * kInputs, 26);
  w[100] = std::nanf("");
  EXPECT_THROW(round(w, "trellis4-row", correlated_hessian(kInputs, 300, 4)), core::Error);
}

// Trellis codes are made by their own pass, and by no other.
TEST(TrellisRounding, RecipesAreChecked) {
  const auto check = [](const char* scheme, std::vector<std::string> passes) {
    Recipe recipe{"test", formats::parse_scheme(scheme), {}, {}};
    for (const std::string& pass : passes) {
      recipe.steps.push_back({pass, core::Json::object()});
    }
    validate(recipe);
  };
  EXPECT_NO_THROW(check("trellis4-row", {"trellis"}));
  EXPECT_NO_THROW(check("trellis2-row-hrow", {"hadamard", "trellis"}));
  EXPECT_NO_THROW(check("trellis3-row", {"rotate", "asymmetric", "trellis"}));
  EXPECT_THROW(check("trellis4-row", {"rtn"}), core::Error);
  EXPECT_THROW(check("trellis4-row", {"gptq"}), core::Error);
  EXPECT_THROW(check("trellis4-row", {"awq", "trellis"}), core::Error);
  EXPECT_THROW(check("trellis4-row", {"search", "trellis"}), core::Error);
  EXPECT_THROW(check("trellis4-row", {"wanda", "trellis"}), core::Error);
  EXPECT_THROW(check("trellis4-row", {"trellis", "refine"}), core::Error);
  EXPECT_THROW(check("trellis4-tensor", {"trellis"}), core::Error);
  EXPECT_THROW(check("int4-sym-g128", {"trellis"}), core::Error);
}

}  // namespace
}  // namespace nibble::compress
