// NVFP4 under the passes: which scales they choose, and what that costs.

#include "compress/recipe/nv_rule.h"

#include "compress/gptq/gptq.h"
#include "compress/pipeline/reference_layer_for_tests.h"
#include "core/json.h"

namespace nibble::compress {
namespace {

const RecipeStep kPlainRtn = {"rtn", core::Json{{"four_over_six", false}}};

class NvRules : public ReferenceLayer {
 protected:
  NvRules() : ReferenceLayer("weight_only.json") {}

  double output_loss(const std::vector<RecipeStep>& steps) {
    return relative(run("nvfp4", steps), output_);
  }
  double weight_loss(const std::vector<RecipeStep>& steps) {
    std::vector<float> identity(kInputs * kInputs, 0.0f);
    for (std::size_t i = 0; i < kInputs; ++i) {
      identity[i * kInputs + i] = 1.0f;
    }
    return relative(run("nvfp4", steps), identity);
  }
};

float largest_of(const std::vector<float>& weights) {
  float largest = 0;
  for (const float w : weights) {
    largest = std::max(largest, std::abs(w));
  }
  return largest;
}

TEST_F(NvRules, TheOptionChoosesGlobalScaleAndGroupScales) {
  const float largest = largest_of(weights_);
  for (const char* pass : {"rtn", "gptq"}) {
    const auto plain = run("nvfp4", {{pass, core::Json{{"four_over_six", false}}}});
    EXPECT_EQ(plain.global.data<float>()[0], static_cast<float>(largest / (6.0 * 448))) << pass;
    const auto choosing = run("nvfp4", {{pass}});
    EXPECT_EQ(choosing.global.data<float>()[0], static_cast<float>(largest / (6.0 * 256))) << pass;
  }
  EXPECT_LT(weight_loss({{"rtn"}}), 0.93 * weight_loss({kPlainRtn}));
}

TEST_F(NvRules, MethodsLoseLess) {
  const double rtn = output_loss({{"rtn"}});
  const double searched = relative(run("nvfp4", {{"search"}, {"rtn"}}), diagonal_);
  EXPECT_LT(searched, relative(run("nvfp4", {{"rtn"}}), diagonal_));
  const double gptq = output_loss({{"gptq"}});
  EXPECT_LT(gptq, 0.8 * rtn);
  EXPECT_LT(output_loss({{"search"}, {"gptq"}, {"refine"}}), gptq);
}

// The file says what GPTQ and refine reckoned with.
TEST_F(NvRules, WeightsDecodeToWhatTheMethodsSaw) {
  const formats::Scheme scheme = formats::parse_scheme("nvfp4");
  const auto packed = run("nvfp4", {{"search"}, {"gptq"}, {"refine"}});
  const CodedWeight coded = unpack(packed);
  const RowFormats row_formats(scheme, coded.parameters);
  std::vector<float> row(kInputs);
  for (std::int64_t i = 0; i < kOutputs; ++i) {
    formats::decode_row(packed, i, row);
    for (std::int64_t j = 0; j < kInputs; ++j) {
      const auto& group =
          coded.parameters.groups[static_cast<std::size_t>(i * (kInputs / 16) + j / 16)];
      ASSERT_EQ(
          row[static_cast<std::size_t>(j)],
          row_formats.of(i).decode(coded.codes[static_cast<std::size_t>(i * kInputs + j)], group));
    }
  }
  EXPECT_THROW(RowFormats(scheme, {}), core::Error);  // without a global scale
}

TEST_F(NvRules, AwqServesIt) {
  const auto clipped = run("nvfp4", {{"awq", core::Json{{"scale", false}}}, {"rtn"}});
  EXPECT_LT(relative(clipped, output_), 1.05 * output_loss({{"rtn"}}));
}

TEST(NvRule, OtherSchemesRefuseTheOption) {
  for (const char* pass : {"rtn", "gptq"}) {
    const auto plain = make_pass(pass, {{"four_over_six", false}});
    EXPECT_NO_THROW(plain->check(formats::parse_scheme("nvfp4"))) << pass;
    EXPECT_NO_THROW(plain->check(formats::parse_scheme("f16"))) << pass;
    EXPECT_THROW(plain->check(formats::parse_scheme("mxfp4")), core::Error) << pass;
    EXPECT_NO_THROW(make_pass(pass, core::Json::object())->check(formats::parse_scheme("mxfp4")))
        << pass;
  }
}

}  // namespace
}  // namespace nibble::compress
