#include "compress/search/searched_rounding.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random_values_for_tests.h"
#include "formats/format.h"
#include "formats/gguf_types.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kOutputs = 9;
constexpr std::int64_t kInputs = 80;  // the last group of 32 is shorter

std::vector<double> row_errors(const formats::PackedWeight& weight, const std::vector<float>& w) {
  std::vector<double> errors;
  std::vector<float> row(kInputs);
  for (std::int64_t n = 0; n < kOutputs; ++n) {
    formats::decode_row(weight, n, row);
    double sum = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      sum += std::pow(row[i] - w[static_cast<std::size_t>(n * kInputs) + i], 2);
    }
    errors.push_back(sum);
  }
  return errors;
}

TEST(SearchedRounding, LosesLessThanTheRangeOfAGroup) {
  const std::vector<float> w = core::normal_values(kOutputs * kInputs, 3);
  core::ThreadPool pool(2);
  for (const char* name : {"int4-sym-g32", "int4-asym-g32", "int3-sym-row"}) {
    SCOPED_TRACE(name);
    const formats::Scheme scheme = formats::parse_scheme(name);
    const formats::PackedWeight searched = search_to_nearest(w, kOutputs, kInputs, scheme, pool);
    EXPECT_TRUE(searched.scheme == scheme);
    const auto found = row_errors(searched, w);
    const auto plain = row_errors(formats::round_to_nearest(w, kOutputs, kInputs, scheme, pool), w);
    double sums[2] = {};
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(found[i], plain[i] * 1.0001);
      sums[0] += found[i];
      sums[1] += plain[i];
    }
    EXPECT_LT(sums[0], 0.97 * sums[1]);
  }
}

// Scales are searched before they become multiples, so a row may lose a little by it.
TEST(SearchedRounding, BlocksOfGgufLoseLessThanTheRangeOfAGroup) {
  constexpr std::int64_t kWide = 512;
  const std::vector<float> w = core::normal_values(kOutputs * kWide, 5);
  core::ThreadPool pool(2);
  const auto error = [&](const formats::PackedWeight& weight) {
    std::vector<float> row(kWide);
    double sum = 0;
    for (std::int64_t n = 0; n < kOutputs; ++n) {
      formats::decode_row(weight, n, row);
      for (std::size_t i = 0; i < row.size(); ++i) {
        sum += std::pow(row[i] - w[static_cast<std::size_t>(n * kWide) + i], 2);
      }
    }
    return sum;
  };
  for (const auto& [word, scheme, blocks] : formats::rounded_types()) {
    const auto searched = search_to_nearest(w, kOutputs, kWide, scheme, pool);
    EXPECT_TRUE(searched.scheme == scheme);
    const double plain = error(formats::round_to_nearest(w, kOutputs, kWide, scheme, pool));
    const bool powers =
        blocks->form->scale == gguf_blocks::BlockScale::kExponent;  // few to choose from
    EXPECT_LT(error(searched), (powers ? 1.0 : 0.93) * plain) << word;
  }
}

// IQ4's values reach further below 0, which is not always where the largest weight should be.
TEST(SearchedRounding, ABookIsMirroredWhereThatLosesLess) {
  const std::vector<float> w = core::normal_values(kOutputs * kInputs, 6);
  core::ThreadPool pool(2);
  const formats::Scheme scheme = formats::parse_scheme("lut4-iq4-g32");
  const auto searched = search_to_nearest(w, kOutputs, kInputs, scheme, pool);
  const auto plain = formats::round_to_nearest(w, kOutputs, kInputs, scheme, pool);
  int turned = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(plain.scales.elements()); ++i) {
    turned += core::to_float(searched.scales.data<core::Fp16>()[i]) *
                          core::to_float(plain.scales.data<core::Fp16>()[i]) <
                      0
                  ? 1
                  : 0;
  }
  EXPECT_GT(turned, 0);
}

TEST(SearchedRounding, OtherSchemesAndWeightsAreRefused) {
  std::vector<float> w = core::normal_values(kOutputs * kInputs, 3);
  core::ThreadPool pool(1);
  for (const char* name :
       {"lut4-nf4-g16", "int8-sym-tensor", "int4-sym-g16-h16", "int4-sym-g16-s8"}) {
    EXPECT_THROW(search_to_nearest(w, kOutputs, kInputs, formats::parse_scheme(name), pool),
                 core::Error)
        << name;
  }
  w[100] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(search_to_nearest(w, kOutputs, kInputs, formats::parse_scheme("int4-sym-g16"), pool),
               core::Error);
}

}  // namespace
}  // namespace nibble::compress
