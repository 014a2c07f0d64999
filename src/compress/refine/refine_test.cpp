#include "compress/refine/refine.h"

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/gptq/gptq.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kOutputs = 70;  // two tasks
constexpr std::int64_t kInputs = 160;

constexpr const char* kSchemes[] = {"int4-asym-g32", "int3-sym-g64", "int4-asym-row",
                                    "lut4-nf4-g64",  "mxfp4",        "nvfp4"};

CodedWeight rounded(const std::vector<float>& w, const formats::Scheme& scheme) {
  core::ThreadPool pool(1);
  return round_with(w, kOutputs, kInputs, scheme,
                    fit_parameters(w, kOutputs, kInputs, scheme, pool), pool);
}

CodedWeight refined(CodedWeight coded, const std::vector<float>& w, const formats::Scheme& scheme,
                    const std::vector<float>& hessian, const RefineOptions& options,
                    int threads = 2) {
  core::ThreadPool pool(threads);
  refine(coded, w, kOutputs, kInputs, scheme, symmetric_hessian(hessian, kInputs, 0.01), options,
         pool);
  return coded;
}

double damped_loss(const std::vector<float>& w, const CodedWeight& coded,
                   const formats::Scheme& scheme, const std::vector<float>& hessian) {
  return loss(w, pack(coded, kOutputs, kInputs, scheme), symmetric_hessian(hessian, kInputs, 0.01));
}

TEST(Refine, EverySweepLosesLess) {
  const auto w = core::normal_values(kOutputs * kInputs, 1);
  const auto hessian = correlated_hessian(kInputs, 500, 2);
  for (const char* text : kSchemes) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    for (const bool scales : {false, true}) {
      CodedWeight coded = rounded(w, scheme);
      double last = damped_loss(w, coded, scheme, hessian);
      for (int sweep = 0; sweep < 3; ++sweep) {
        coded = refined(coded, w, scheme, hessian, {1, scales});
        const double now = damped_loss(w, coded, scheme, hessian);
        EXPECT_LT(now, last * (sweep == 0 ? 0.8 : 1.0 + 1e-9)) << text;
        last = now;
      }
    }
  }
}

TEST(Refine, FittingScalesTooLosesLess) {
  const auto w = core::normal_values(kOutputs * kInputs, 3);
  const auto hessian = correlated_hessian(kInputs, 500, 4);
  const formats::Scheme scheme = formats::parse_scheme("int3-sym-g32");
  const CodedWeight start = rounded(w, scheme);
  EXPECT_LT(damped_loss(w, refined(start, w, scheme, hessian, {3, true}), scheme, hessian),
            0.99 * damped_loss(w, refined(start, w, scheme, hessian, {3, false}), scheme, hessian));
}

TEST(Refine, ImprovesOnGptq) {
  const auto w = core::normal_values(kOutputs * kInputs, 5);
  const auto hessian = correlated_hessian(kInputs, 500, 6);
  core::ThreadPool pool(2);
  for (const char* text : kSchemes) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    const CodedWeight start =
        gptq(w, kOutputs, kInputs, scheme, fit_parameters(w, kOutputs, kInputs, scheme, pool),
             inverse_factor(hessian, kInputs, 0.01, true), pool);
    const CodedWeight end = refined(start, w, scheme, hessian, {2, true});
    EXPECT_LT(damped_loss(w, end, scheme, hessian), damped_loss(w, start, scheme, hessian)) << text;
  }
}

// Without correlation each code is best alone: rounding to nearest is already the minimum.
TEST(Refine, LeavesCodesAloneWhenInputsAreIndependent) {
  const auto w = core::normal_values(kOutputs * kInputs, 7);
  std::vector<float> diagonal(kInputs * kInputs, 0.0f);
  for (std::size_t i = 0; i < kInputs; ++i) {
    diagonal[i * kInputs + i] = 1.0f + static_cast<float>(i % 5);
  }
  for (const char* text : kSchemes) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    const CodedWeight start = rounded(w, scheme);
    EXPECT_EQ(refined(start, w, scheme, diagonal, {2, false}).codes, start.codes) << text;
  }
}

// Codes that no change of a single code improves, checked one by one in double.
TEST(Refine, EndsWhereNoSingleCodeCanImprove) {
  constexpr int kMany = 60;
  const auto w = core::normal_values(kOutputs * kInputs, 8);
  const auto hessian = correlated_hessian(kInputs, 500, 9);
  const formats::Scheme scheme = formats::parse_scheme("int3-asym-g32");
  const CodedWeight end = refined(rounded(w, scheme), w, scheme, hessian, {kMany, false});
  const auto h = symmetric_hessian(hessian, kInputs, 0.01);
  std::vector<float> row(kInputs);
  const auto packed = pack(end, kOutputs, kInputs, scheme);
  for (const std::int64_t i : {std::int64_t{0}, kOutputs - 1}) {
    formats::decode_row(packed, i, row);
    for (std::size_t j = 0; j < kInputs; ++j) {
      double gradient = 0;
      for (std::size_t l = 0; l < kInputs; ++l) {
        gradient += (row[l] - static_cast<double>(w[static_cast<std::size_t>(i) * kInputs + l])) *
                    h[l * kInputs + j];
      }
      const double scale =
          std::abs(end.parameters.groups[static_cast<std::size_t>(i) * 5 + j / 32].scale);
      const int code = end.codes[static_cast<std::size_t>(i) * kInputs + j];
      const double curvature = h[j * kInputs + j];
      for (const int step : {-1, 1}) {
        if (code + step >= 0 && code + step < 8) {
          const double change = 2 * step * scale * gradient + scale * scale * curvature;
          EXPECT_GT(change, -1e-4 * scale * scale * curvature) << i << " " << j;
        }
      }
    }
  }
}

TEST(Refine, ThreadsDoNotChangeTheResult) {
  const auto w = core::normal_values(kOutputs * kInputs, 10);
  const auto hessian = correlated_hessian(kInputs, 500, 11);
  const formats::Scheme scheme = formats::parse_scheme("int4-asym-g32");
  const CodedWeight one = refined(rounded(w, scheme), w, scheme, hessian, {}, 1);
  const CodedWeight two = refined(rounded(w, scheme), w, scheme, hessian, {}, 2);
  EXPECT_EQ(one.codes, two.codes);
  for (std::size_t i = 0; i < one.parameters.groups.size(); ++i) {
    EXPECT_EQ(one.parameters.groups[i].scale, two.parameters.groups[i].scale);
  }
}

TEST(Refine, TakesInputsThatWereNeverActive) {
  const auto w = core::normal_values(kOutputs * kInputs, 12);
  const formats::Scheme scheme = formats::parse_scheme("int4-asym-g32");
  const CodedWeight start = rounded(w, scheme);
  const std::vector<float> silent(kInputs * kInputs, 0.0f);
  EXPECT_EQ(refined(start, w, scheme, silent, {}).codes, start.codes);
}

}  // namespace
}  // namespace nibble::compress
