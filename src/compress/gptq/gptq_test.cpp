#include "compress/gptq/gptq.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"

namespace nibble::compress {
namespace {

using formats::GroupParameters;

std::vector<std::uint8_t> codes_of(const formats::PackedWeight& weight) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.n * weight.k));
  for (std::int64_t i = 0; i < weight.n; ++i) {
    formats::unpack_codes(weight, i,
                          std::span(codes).subspan(static_cast<std::size_t>(i * weight.k),
                                                   static_cast<std::size_t>(weight.k)));
  }
  return codes;
}

formats::PackedWeight run(const std::vector<float>& w, std::int64_t n, std::int64_t k,
                          const formats::Scheme& scheme, const std::vector<float>& hessian,
                          double damp, bool descending) {
  core::ThreadPool pool(2);
  const InverseFactor factor = inverse_factor(hessian, k, damp, descending);
  return pack(gptq(w, n, k, scheme, fit_parameters(w, n, k, scheme, pool), factor, pool), n, k,
              scheme);
}

// Algorithm 1 in double, one input after another, without blocks.
std::vector<std::uint8_t> plain_gptq(const std::vector<float>& w, std::int64_t n, std::int64_t k,
                                     const formats::Scheme& scheme, const InverseFactor& factor) {
  const auto format = formats::make_format(scheme);
  std::vector<std::uint8_t> codes(w.size());
  for (std::int64_t row = 0; row < n; ++row) {
    std::vector<double> rest(w.begin() + row * k, w.begin() + (row + 1) * k);
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t input = factor.order[static_cast<std::size_t>(i)];
      const std::int64_t begin = input / scheme.scale.group * scheme.scale.group;
      const auto width = static_cast<std::size_t>(std::min(scheme.scale.group, k - begin));
      const GroupParameters group = format->fit({w.data() + row * k + begin, width});
      const auto code =
          format->encode(static_cast<float>(rest[static_cast<std::size_t>(input)]), group);
      codes[static_cast<std::size_t>(row * k + input)] = code;
      const double error = (rest[static_cast<std::size_t>(input)] - format->decode(code, group)) /
                           factor.upper[static_cast<std::size_t>(i * k + i)];
      for (std::int64_t j = i; j < k; ++j) {
        rest[static_cast<std::size_t>(factor.order[static_cast<std::size_t>(j)])] -=
            error * factor.upper[static_cast<std::size_t>(i * k + j)];
      }
    }
  }
  return codes;
}

constexpr const char* kSchemes[] = {"int4-asym-g32", "int3-asym-g64", "int4-sym-g32",
                                    "lut4-nf4-g32"};

TEST(InverseFactor, InvertsTheDampedHessian) {
  constexpr std::int64_t kSize = 40;
  const auto hessian = correlated_hessian(kSize, 90, 1);
  for (const bool descending : {false, true}) {
    const InverseFactor factor = inverse_factor(hessian, kSize, 0.01, descending);
    double mean = 0;
    for (std::int64_t i = 0; i < kSize; ++i) {
      mean += hessian[static_cast<std::size_t>(i * kSize + i)] / kSize;
    }
    const auto h = [&](std::int64_t i, std::int64_t j) {
      const auto a = static_cast<std::size_t>(factor.order[static_cast<std::size_t>(i)]);
      const auto b = static_cast<std::size_t>(factor.order[static_cast<std::size_t>(j)]);
      return hessian[a * kSize + b] + (a == b ? 0.01 * mean : 0.0);
    };
    for (std::int64_t i = 0; i < kSize; ++i) {  // U H U^T = 1
      for (std::int64_t j = 0; j < kSize; ++j) {
        double sum = 0;
        for (std::int64_t a = i; a < kSize; ++a) {
          for (std::int64_t b = j; b < kSize; ++b) {
            sum += static_cast<double>(factor.upper[static_cast<std::size_t>(i * kSize + a)]) *
                   h(a, b) *
                   static_cast<double>(factor.upper[static_cast<std::size_t>(j * kSize + b)]);
          }
        }
        ASSERT_NEAR(sum, i == j ? 1.0 : 0.0, 2e-5);
      }
    }
    for (std::int64_t i = 0; descending && i + 1 < kSize; ++i) {
      EXPECT_GE(h(i, i), h(i + 1, i + 1));
    }
  }
}

TEST(InverseFactor, RaisesTheDampForASingularHessian) {
  std::vector<float> ones(64, 1.0f);  // rank 1
  const InverseFactor factor = inverse_factor(ones, 8, 0.0, false);
  EXPECT_GT(factor.damp, 0.0);
}

TEST(InverseFactor, KnowsInputsThatWereNeverActive) {
  std::vector<float> hessian(64, 0.0f);
  hessian[9] = 2.0f;  // the second of eight inputs alone
  const InverseFactor one = inverse_factor(hessian, 8, 0.01, true);
  EXPECT_EQ(std::count(one.dead.begin(), one.dead.end(), true), 7);
  const InverseFactor none = inverse_factor(std::vector<float>(64, 0.0f), 8, 0.01, true);
  EXPECT_EQ(std::count(none.dead.begin(), none.dead.end(), true), 0);  // nothing to tell them apart
}

// An expert that no calibration token reached.
TEST(Gptq, RoundsToNearestWithoutAnyInput) {
  const auto w = core::normal_values(4 * 64, 9);
  const formats::Scheme scheme = formats::parse_scheme("int4-asym-g32");
  const auto expected = codes_of(formats::round_to_nearest(w, 4, 64, scheme));
  EXPECT_EQ(codes_of(run(w, 4, 64, scheme, std::vector<float>(64 * 64, 0.0f), 0.01, true)),
            expected);
}

TEST(Gptq, EqualsRoundToNearestWhenInputsAreIndependent) {
  constexpr std::int64_t kRows = 6;
  constexpr std::int64_t kInputs = 192;
  const auto w = core::normal_values(kRows * kInputs, 2);
  std::vector<float> diagonal(kInputs * kInputs, 0.0f);
  for (std::size_t i = 0; i < kInputs; ++i) {
    diagonal[i * kInputs + i] = 1.0f + static_cast<float>(i % 5);
  }
  for (const char* text : kSchemes) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    const auto expected = codes_of(formats::round_to_nearest(w, kRows, kInputs, scheme));
    EXPECT_EQ(codes_of(run(w, kRows, kInputs, scheme, diagonal, 0.01, true)), expected) << text;
  }
}

TEST(Gptq, RoundsToE4m3CodesToo) {
  constexpr std::int64_t kRows = 6;
  constexpr std::int64_t kInputs = 96;
  const auto w = core::normal_values(kRows * kInputs, 2);
  std::vector<float> diagonal(kInputs * kInputs, 0.0f);
  for (std::size_t i = 0; i < kInputs; ++i) {
    diagonal[i * kInputs + i] = 1.0f + static_cast<float>(i % 5);
  }
  const auto correlated = correlated_hessian(kInputs, 200, 4);
  for (const char* text : {"fp8-row", "fp8-tensor"}) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    const auto nearest = codes_of(formats::round_to_nearest(w, kRows, kInputs, scheme));
    EXPECT_EQ(codes_of(run(w, kRows, kInputs, scheme, diagonal, 0.01, true)), nearest) << text;
    EXPECT_NE(codes_of(run(w, kRows, kInputs, scheme, correlated, 0.01, true)), nearest) << text;
  }
}

TEST(Gptq, MatchesThePlainAlgorithm) {
  constexpr std::int64_t kRows = 70;     // two tasks
  constexpr std::int64_t kInputs = 288;  // three blocks
  const auto w = core::normal_values(kRows * kInputs, 3);
  const auto hessian = correlated_hessian(kInputs, 600, 4);
  for (const char* text : kSchemes) {
    for (const bool descending : {false, true}) {
      const formats::Scheme scheme = formats::parse_scheme(text);
      const InverseFactor factor = inverse_factor(hessian, kInputs, 0.01, descending);
      const auto expected = plain_gptq(w, kRows, kInputs, scheme, factor);
      const auto codes = codes_of(run(w, kRows, kInputs, scheme, hessian, 0.01, descending));
      std::size_t different =
          0;  // float32 against double: ties may fall differently, and then spread
      for (std::size_t i = 0; i < codes.size(); ++i) {
        different += codes[i] == expected[i] ? 0 : 1;
      }
      EXPECT_LT(different, codes.size() / 100) << text;
    }
  }
}

TEST(Gptq, LosesLessThanRoundToNearest) {
  constexpr std::int64_t kRows = 16;
  constexpr std::int64_t kInputs = 128;
  for (std::uint64_t seed = 10; seed < 16; ++seed) {
    const auto w = core::normal_values(kRows * kInputs, seed);
    const auto hessian = correlated_hessian(kInputs, 400, seed + 100);
    for (const char* text : kSchemes) {
      const formats::Scheme scheme = formats::parse_scheme(text);
      const double rtn = loss(w, formats::round_to_nearest(w, kRows, kInputs, scheme), hessian);
      EXPECT_LT(loss(w, run(w, kRows, kInputs, scheme, hessian, 0.01, true), hessian), 0.9 * rtn)
          << text;
    }
  }
}

TEST(Gptq, ParametersAreThoseOfTheOriginalWeights) {
  const auto w = core::normal_values(4 * 96, 5);
  const formats::Scheme scheme = formats::parse_scheme("int4-asym-g32");
  const auto packed = run(w, 4, 96, scheme, correlated_hessian(96, 300, 6), 0.01, true);
  const auto rtn = formats::round_to_nearest(w, 4, 96, scheme);
  std::vector<float> a(3);
  std::vector<float> b(3);
  for (std::int64_t row = 0; row < 4; ++row) {
    formats::unpack_scales(packed, row, a);
    formats::unpack_scales(rtn, row, b);
    EXPECT_EQ(a, b);
  }
}

TEST(Gptq, ThreadsDoNotChangeTheResult) {
  const auto w = core::normal_values(200 * 160, 7);
  const auto hessian = correlated_hessian(160, 400, 8);
  const formats::Scheme scheme = formats::parse_scheme("int4-asym-g32");
  const InverseFactor factor = inverse_factor(hessian, 160, 0.01, true);
  std::vector<std::uint8_t> expected;
  for (const int threads : {1, 2, 4}) {
    core::ThreadPool pool(threads);
    const auto codes =
        gptq(w, 200, 160, scheme, fit_parameters(w, 200, 160, scheme, pool), factor, pool).codes;
    EXPECT_TRUE(expected.empty() || codes == expected);
    expected = codes;
  }
}

}  // namespace
}  // namespace nibble::compress
