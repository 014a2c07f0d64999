// Pruning as recipes run it, against NumPy transcriptions of the papers
// (tests/reference/make_pruning.py).

#include "compress/pipeline/reference_layer_for_tests.h"
#include "core/json.h"

namespace nibble::compress {
namespace {

constexpr const char* kPatterns[] = {"unstructured", "2:4", "4:8", "1:4", "1:2", "12:16"};

class PruningReference : public ReferenceLayer {
 protected:
  PruningReference() : ReferenceLayer("pruning.json") {}

  // Pruned weights are exactly 0, and many others are not.
  void expect_zeros(const char* scheme, const std::vector<RecipeStep>& steps) {
    const LayerWork layer = run_steps(scheme, steps);
    std::vector<float> row(kInputs);
    std::int64_t nonzero = 0;
    for (std::int64_t i = 0; i < kOutputs; ++i) {
      formats::decode_row(*layer.packed, i, row);
      for (std::size_t j = 0; j < row.size(); ++j) {
        const bool kept = layer.kept[static_cast<std::size_t>(i) * row.size() + j] != 0;
        ASSERT_TRUE(kept || row[j] == 0) << scheme << " " << steps[0].pass << " " << i << " " << j;
        nonzero += row[j] != 0 ? 1 : 0;
      }
    }
    EXPECT_GT(nonzero, kOutputs * kInputs / 4) << scheme << " " << steps[0].pass;
  }

  double output_loss(const std::string& scheme, const std::vector<RecipeStep>& steps) {
    return relative(run(scheme, steps), output_);
  }
};

TEST_F(PruningReference, LosesNoMoreThanNumpy) {
  for (const char* pattern : kPatterns) {
    const core::Json options = {{"pattern", pattern}};
    for (const char* pass : {"magnitude", "wanda", "sparsegpt"}) {
      const double pruned = golden(pattern, pass);
      EXPECT_NEAR(output_loss("f32", {{pass, options}, {"rtn"}}), pruned, 0.005 * pruned)
          << pass << " " << pattern;
      EXPECT_LE(output_loss("int4-asym-g64", {{pass, options}, {"gptq"}}),
                1.005 * golden(pattern, std::string(pass) + " gptq"))
          << pass << " " << pattern;
    }
  }
}

TEST_F(PruningReference, SparseGptLosesLessThanWandaAndWandaLessThanMagnitude) {
  for (const char* pattern : kPatterns) {
    const core::Json options = {{"pattern", pattern}};
    const double wanda = output_loss("f32", {{"wanda", options}, {"rtn"}});
    EXPECT_LT(output_loss("f32", {{"sparsegpt", options}, {"rtn"}}), wanda) << pattern;
    EXPECT_LT(wanda, output_loss("f32", {{"magnitude", options}, {"rtn"}})) << pattern;
  }
}

// Pruning, then rounding: no step behind the pruning brings a weight back.
TEST_F(PruningReference, PrunedWeightsDecodeToExactlyZero) {
  for (const char* scheme : {"int4-asym-g64", "int4-sym-g64", "int3-asym-g64", "int8-sym-row",
                             "lut4-nf4-g64", "lut4-fp4-g64", "lut4-af4-g64", "mxfp4", "nvfp4"}) {
    const std::vector<std::vector<RecipeStep>> endings = {{{"rtn"}},
                                                          {{"gptq"}},
                                                          {{"search"}, {"gptq"}, {"refine"}},
                                                          {{"search"}, {"rtn"}, {"refine"}}};
    for (const char* pass : {"magnitude", "wanda", "sparsegpt"}) {
      for (std::vector<RecipeStep> steps : endings) {
        steps.insert(steps.begin(), {pass, core::Json{{"pattern", "2:4"}}});
        expect_zeros(scheme, steps);
      }
    }
  }
}

// Books are learned with a 0 in them, where weights are pruned before.
TEST_F(PruningReference, PrunedWeightsOfLearnedBooksDecodeToExactlyZero) {
  for (const char* scheme :
       {"lut4-row-g64", "lut4-matrix-g64", "lut4-matrix-g32-s7", "lut2-row-g64"}) {
    for (const char* pattern : {"2:4", "12:16"}) {
      const RecipeStep prune = {"wanda", core::Json{{"pattern", pattern}}};
      expect_zeros(scheme, {prune, {"any4"}, {"rtn"}});
      expect_zeros(scheme, {prune, {"any4"}, {"gptq"}, {"refine"}});
    }
  }
}

TEST_F(PruningReference, PruningAfterRoundingChangesOnlyThePrunedCodes) {
  for (const char* scheme : {"int4-asym-g64", "int3-sym-g64", "lut4-nf4-g64", "mxfp4"}) {
    const LayerWork layer = run_steps(
        scheme, {{"gptq"}, {"wanda", core::Json{{"pattern", "4:8"}, {"after_rounding", true}}}});
    const CodedWeight before = unpack(run(scheme, {{"gptq"}}));
    const CodedWeight after = unpack(*layer.packed);
    const auto format = formats::make_format(layer.scheme);
    const std::int64_t groups = formats::groups_per_row(layer.scheme, kInputs);
    const std::int64_t size = formats::group_size(layer.scheme, kInputs);
    std::int64_t pruned = 0;
    for (std::int64_t i = 0; i < kOutputs * kInputs; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto group = static_cast<std::size_t>(i / kInputs * groups + i % kInputs / size);
      ASSERT_EQ(after.parameters.groups[group].scale, before.parameters.groups[group].scale);
      if (layer.kept[at] != 0) {
        ASSERT_EQ(after.codes[at], before.codes[at]) << scheme << " " << i;
      } else {
        ASSERT_EQ(format->decode(after.codes[at], after.parameters.groups[group]), 0) << scheme;
        ++pruned;
      }
    }
    EXPECT_EQ(pruned, kOutputs * kInputs / 2) << scheme;
  }
}

}  // namespace
}  // namespace nibble::compress
