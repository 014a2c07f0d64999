#include "compress/coding/coded_weight.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/random_values_for_tests.h"
#include "formats/gguf_types.h"
#include "formats/stored_parts.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kOutputs = 21;
constexpr std::int64_t kInputs = 96;

std::vector<float> random_weights() {
  core::Random random(5);
  std::vector<float> weights(static_cast<std::size_t>(kOutputs * kInputs));
  for (float& weight : weights) {
    weight = random.normal();
  }
  return weights;
}

void expect_same(const formats::PackedWeight& packed, const formats::PackedWeight& expected) {
  for (const formats::StoredPart& part :
       formats::stored_parts(expected.scheme, expected.n, expected.k)) {
    const core::Tensor& tensor = packed.*part.tensor;
    const core::Tensor& wanted = expected.*part.tensor;
    ASSERT_EQ(tensor.bytes(), wanted.bytes());
    EXPECT_EQ(std::vector(tensor.raw(), tensor.raw() + tensor.bytes()),
              std::vector(wanted.raw(), wanted.raw() + wanted.bytes()))
        << formats::to_string(expected.scheme) << " " << part.name;
  }
}

// Two ways to the same bytes, whatever shares a scale.
TEST(CodedWeight, RoundedToNearestIsWhatFormatsRoundTo) {
  const std::vector<float> weights = random_weights();
  for (const char* text :
       {"int4-asym-g32", "int3-sym-row", "int8-sym-tensor", "int4-sym-g32-s7", "int4-min-g32",
        "lut4-nf4-g40", "fp8-row", "fp8-tensor", "mxfp4", "nvfp4"}) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    const auto expected = formats::round_to_nearest(weights, kOutputs, kInputs, scheme);
    for (const int threads : {1, 3}) {
      core::ThreadPool pool(threads);
      const auto packed =
          pack(round_with(weights, kOutputs, kInputs, scheme,
                          fit_parameters(weights, kOutputs, kInputs, scheme, pool), pool),
               kOutputs, kInputs, scheme, pool);
      expect_same(packed, expected);
    }
  }
}

TEST(CodedWeight, BlocksOfGgufAreTakenApartAndPutTogether) {
  constexpr std::int64_t kWide = 512;
  const std::vector<float> weights = core::normal_values(kOutputs * kWide, 6);
  core::ThreadPool pool(2);
  for (const auto& [word, scheme, blocks] : formats::rounded_types()) {
    const auto expected = formats::round_to_nearest(weights, kOutputs, kWide, scheme);
    const Parameters fitted = fit_parameters(weights, kOutputs, kWide, scheme, pool);
    expect_same(pack(round_with(weights, kOutputs, kWide, scheme, fitted, pool), kOutputs, kWide,
                     scheme, pool),
                expected);
    const CodedWeight apart = unpack(expected);
    EXPECT_TRUE(apart.parameters.supers == fitted.supers) << word;
    EXPECT_EQ(apart.parameters.books, fitted.books) << word;
    expect_same(pack(apart, kOutputs, kWide, scheme), expected);
  }
}

TEST(CodedWeight, RowsThatShareAScaleHaveTheSameParameters) {
  const std::vector<float> weights = random_weights();
  core::ThreadPool pool(2);
  const formats::Scheme scheme = formats::parse_scheme("int8-sym-tensor");
  const Parameters parameters = fit_parameters(weights, kOutputs, kInputs, scheme, pool);
  const formats::GroupParameters fitted = formats::make_format(scheme)->fit(weights);
  ASSERT_EQ(std::ssize(parameters.groups), kOutputs);
  for (const formats::GroupParameters& group : parameters.groups) {
    EXPECT_EQ(group.scale, fitted.scale);
  }
}

}  // namespace
}  // namespace nibble::compress
