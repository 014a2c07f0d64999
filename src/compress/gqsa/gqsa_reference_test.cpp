// GQSA as recipes run it, against a NumPy transcription of the paper
// (tests/reference/make_gqsa.py).

#include <utility>
#include <vector>

#include "compress/gqsa/group_saliency.h"
#include "compress/pipeline/reference_layer_for_tests.h"
#include "core/json.h"
#include "formats/block_sparse.h"

namespace nibble::compress {
namespace {

class GqsaReference : public ReferenceLayer {
 protected:
  GqsaReference() : ReferenceLayer("gqsa.json") {}

  static GroupSparsity sparsity_of(const core::Json& row) {
    return {.share = row.at("share").get<double>(),
            .group = row.at("group").get<std::int64_t>(),
            .of_rows = row.at("balance") == "row",
            .saliency = row.at("saliency") == "gqsa" ? Saliency::kGqsa : Saliency::kObs};
  }
  LayerWork pruned(const core::Json& row, const std::string& code) {
    const core::Json options = {{"sparsity", row.at("share")},
                                {"balance", row.at("balance")},
                                {"saliency", row.at("saliency")}};
    const auto scheme = fmt::format("{}-g{}-bsr", code, row.at("group").get<std::int64_t>());
    std::vector<RecipeStep> steps = {{"gqsa", options}};
    if (code == "lut4-row" || code == "lut3-matrix") {
      steps.push_back({"any4"});
    }
    steps.push_back({code == "f16" ? "rtn" : "gptq"});
    return run_steps(scheme, steps);
  }
};

TEST_F(GqsaReference, FindsTheSaliencyThatNumpyFinds) {
  const InverseFactor factor = inverse_factor(statistics_.hessian(), kInputs, 0.01, false);
  for (const core::Json& row : golden_) {
    const auto saliency = group_saliency(weights_, kOutputs, factor, sparsity_of(row), ops_.pool());
    const auto expected = row.at("first row").get<std::vector<double>>();
    for (std::size_t g = 0; g < expected.size(); ++g) {
      EXPECT_NEAR(saliency[g], expected[g], 1e-3 * expected[g]);
    }
  }
}

TEST_F(GqsaReference, PrunesTheGroupsThatNumpyPrunesAndStoresTheOthers) {
  for (const core::Json& row : golden_) {
    for (const char* code : {"int4-asym", "f16", "lut4-row", "lut3-matrix", "lut4-nf4"}) {
      const LayerWork layer = pruned(row, code);
      const auto rows = row.at("pruned").get<std::vector<std::string>>();
      const std::int64_t group = row.at("group").get<std::int64_t>();
      for (std::int64_t n = 0; n < kOutputs; ++n) {
        std::string got(static_cast<std::size_t>(kInputs / group), 'x');
        const auto [begin, end] = formats::stored_groups_of(*layer.packed, n);
        for (std::int64_t at = begin; at < end; ++at) {
          got[static_cast<std::size_t>(formats::stored_group(*layer.packed, at))] = '.';
        }
        EXPECT_EQ(got, rows[static_cast<std::size_t>(n)])
            << code << ", row " << n << " of " << row.dump();
      }
    }
  }
}

TEST_F(GqsaReference, LosesNoMoreThanNumpy) {
  for (const core::Json& row : golden_) {
    const double rounded = relative(*pruned(row, "int4-asym").packed, output_);
    EXPECT_LE(rounded, 1.005 * row.at("rounded loss").get<double>()) << row.dump();
    const double least = row.at("least pruned loss").get<double>();
    for (const char* code : {"int8-asym", "f16"}) {
      const double got = relative(*pruned(row, code).packed, output_);
      EXPECT_GT(got, 0.999 * least) << code << " of " << row.dump();
      EXPECT_LT(got, 1.02 * least) << code << " of " << row.dump();
    }
  }
}

TEST_F(GqsaReference, RefiningBringsNoGroupBack) {
  const core::Json options = {{"sparsity", 0.5}};
  const std::pair<const char*, std::vector<RecipeStep>> recipes[] = {
      {"int4-asym-g16-bsr", {{"gqsa", options}, {"gptq"}}},
      {"lut4-row-g16-bsr", {{"gqsa", options}, {"any4"}, {"gptq"}}}};
  for (const auto& [scheme, steps] : recipes) {
    const auto plain = run(scheme, steps);
    std::vector<RecipeStep> more = steps;
    more.push_back({"refine"});
    const auto refined = run(scheme, more);
    EXPECT_LE(formats::stored_group_count(refined), formats::stored_group_count(plain)) << scheme;
    EXPECT_LT(relative(refined, output_), relative(plain, output_)) << scheme;
  }
}

// A book that is learned of what is kept loses less than symmetric integers of as many bits.
TEST_F(GqsaReference, BooksLoseLessThanIntegers) {
  for (const core::Json& row : golden_) {
    const auto lost = [&](const char* code) {
      return relative(*pruned(row, code).packed, output_);
    };
    EXPECT_LT(lost("lut4-row"), lost("int4-sym")) << row.dump();
    EXPECT_LT(lost("lut3-matrix"), lost("int3-sym")) << row.dump();
  }
}

// Weights that are pruned one by one stand among kept ones: their book has a 0.
TEST_F(GqsaReference, BooksKeepSingleWeightsPruned) {
  const core::Json pattern = {{"pattern", "2:4"}};
  const LayerWork layer = run_steps("lut4-row-g16-bsr", {{"wanda", pattern}, {"any4"}, {"gptq"}});
  std::vector<float> row(kInputs);
  for (std::int64_t n = 0; n < kOutputs; ++n) {
    formats::decode_row(*layer.packed, n, row);
    for (std::size_t j = 0; j < row.size(); ++j) {
      EXPECT_TRUE(layer.kept[static_cast<std::size_t>(n * kInputs) + j] != 0 || row[j] == 0);
    }
  }
}

TEST_F(GqsaReference, RefusesOtherSchemes) {
  EXPECT_THROW(
      (void)make_pass("gqsa", core::Json::object())->check(formats::parse_scheme("int4-asym-g16")),
      core::Error);
  make_pass("gqsa", core::Json::object())->check(formats::parse_scheme("int4-asym-g16-bsr"));
  make_pass("gqsa", core::Json::object())->check(formats::parse_scheme("f16-g16-bsr"));
}

}  // namespace
}  // namespace nibble::compress
