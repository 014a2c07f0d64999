#include "compress/coding/coded_weight.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
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

// Two ways to the same bytes, whatever shares a scale.
TEST(CodedWeight, RoundedToNearestIsWhatFormatsRoundTo) {
  const std::vector<float> weights = random_weights();
  for (const char* text : {"int4-asym-g32", "int3-sym-row", "int8-sym-tensor", "int4-sym-g32-s7",
                           "lut4-nf4-g40", "fp8-row", "fp8-tensor", "mxfp4", "nvfp4"}) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    const auto expected = formats::round_to_nearest(weights, kOutputs, kInputs, scheme);
    for (const int threads : {1, 3}) {
      core::ThreadPool pool(threads);
      const auto packed =
          pack(round_with(weights, kOutputs, kInputs, scheme,
                          fit_parameters(weights, kOutputs, kInputs, scheme, pool), pool),
               kOutputs, kInputs, scheme, pool);
      for (const formats::StoredPart& part : formats::stored_parts(scheme, kOutputs, kInputs)) {
        const core::Tensor& tensor = packed.*part.tensor;
        const core::Tensor& wanted = expected.*part.tensor;
        ASSERT_EQ(tensor.bytes(), wanted.bytes());
        EXPECT_EQ(std::vector(tensor.raw(), tensor.raw() + tensor.bytes()),
                  std::vector(wanted.raw(), wanted.raw() + wanted.bytes()))
            << text << " " << part.name;
      }
    }
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
