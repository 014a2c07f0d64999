// The methods as recipes run them, against NumPy transcriptions of the papers
// (tests/reference/make_weight_only.py).

#include "compress/pipeline/reference_layer_for_tests.h"

namespace nibble::compress {
namespace {

class WeightOnlyReference : public ReferenceLayer {
 protected:
  WeightOnlyReference() : ReferenceLayer("weight_only.json") {}
};

TEST_F(WeightOnlyReference, RoundToNearestAndGptqLoseWhatNumpyLoses) {
  for (const char* scheme : {"int3-asym-g64", "int4-asym-g64"}) {
    const double rtn = golden(scheme, "rtn diagonal");
    EXPECT_NEAR(relative(run(scheme, {{"rtn"}}), diagonal_), rtn, 0.005 * rtn) << scheme;
    const double gptq = golden(scheme, "gptq output");
    EXPECT_NEAR(relative(run(scheme, {{"gptq"}}), output_), gptq, 0.005 * gptq) << scheme;
  }
}

TEST_F(WeightOnlyReference, SearchLosesNoMoreThanTheRangeSearchOfNumpy) {
  for (const char* scheme : {"int3-asym-g64", "int4-asym-g64"}) {
    EXPECT_LE(relative(run(scheme, {{"search"}, {"rtn"}}), diagonal_),
              1.005 * golden(scheme, "search diagonal"))
        << scheme;
    EXPECT_LE(relative(run(scheme, {{"search"}, {"gptq"}}), output_),
              1.005 * golden(scheme, "search gptq output"))
        << scheme;
    EXPECT_LE(relative(run(scheme, {{"search"}, {"gptq"}, {"refine"}}), output_),
              1.005 * golden(scheme, "search gptq descent output"))
        << scheme;
  }
}

TEST_F(WeightOnlyReference, LearnedBooksLoseNoMoreThanThoseOfNumpy) {
  const char* scheme = "lut4-row-g64";
  const RecipeStep plain{"any4", core::Json{{"rounds", 0}}};  // what NumPy does
  const double rtn = golden(scheme, "rtn diagonal");
  EXPECT_NEAR(relative(run(scheme, {plain, {"rtn"}}), diagonal_), rtn, 0.005 * rtn);
  const double gptq = golden(scheme, "gptq output");
  EXPECT_LE(relative(run(scheme, {plain, {"gptq"}}), output_), 1.005 * gptq);
  EXPECT_LE(relative(run(scheme, {{"any4"}, {"rtn"}}), diagonal_), rtn);
  EXPECT_LE(relative(run(scheme, {{"any4"}, {"gptq"}}), output_), gptq);
  EXPECT_LE(relative(run(scheme, {{"any4"}, {"gptq"}, {"refine"}}), output_),
            golden(scheme, "gptq descent output"));
}

TEST_F(WeightOnlyReference, ScalesAndClippingLoseNoMoreThanAwqInNumpy) {
  for (const char* scheme : {"int3-asym-g64", "int4-asym-g64"}) {
    const auto lost = [&](const RecipeStep& step) {
      statistics_ = InputStatistics(StatisticsKind::kHessian, kInputs);
      SetUp();
      return relative_as_changed(run_steps(scheme, {step, {"rtn"}}));
    };
    const double scales = golden(scheme, "awq scales output");
    EXPECT_LE(lost({"awq", core::Json{{"clip", false}}}), 1.005 * scales) << scheme;
    const double both = golden(scheme, "awq output");
    EXPECT_LE(lost({"awq"}), 1.005 * both) << scheme;
    EXPECT_GT(lost({"awq"}), 0.5 * both) << scheme;
  }
}

}  // namespace
}  // namespace nibble::compress
