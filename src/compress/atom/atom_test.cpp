// Atom's weights against a NumPy transcription of the paper (tests/reference/make_atom.py), and the
// order of inputs through the operators and the file.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "compress/pipeline/pipeline_for_tests.h"
#include "compress/pipeline/reference_layer_for_tests.h"
#include "compress/recipe/layer_schemes.h"
#include "core/json.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

class Atom : public ReferenceLayer {
 protected:
  Atom() : ReferenceLayer("atom.json") {}
};

TEST_F(Atom, TheTailHoldsTheInputsThatNumpyPutsLast) {
  const LayerWork layer = run_steps("int4-sym-g64-a4g64c0.9-tail16", {{"atom-reorder"}, {"rtn"}});
  const auto tail = golden_.at("tail").get<std::vector<std::int32_t>>();
  EXPECT_EQ(std::vector<std::int32_t>(layer.permutation.end() - 16, layer.permutation.end()), tail);
  std::vector<std::int32_t> all = layer.permutation;
  std::sort(all.begin(), all.end());
  std::vector<std::int32_t> inputs(kInputs);
  std::iota(inputs.begin(), inputs.end(), 0);
  EXPECT_EQ(all, inputs);
  EXPECT_EQ(layer.target[0], weights_[static_cast<std::size_t>(layer.permutation[0])]);
}

TEST_F(Atom, LosesNoMoreThanNumpy) {
  for (const char* bits : {"4", "3"}) {
    const double expected = golden("int" + std::string(bits), "atom");
    const std::string scheme = "int" + std::string(bits) + "-sym-g64-a4g64c0.9-tail16";
    const LayerWork layer = run_steps(scheme, {{"atom-reorder"}, {"search"}, {"gptq"}});
    EXPECT_LE(relative_as_changed(layer), 1.005 * expected) << scheme;
    EXPECT_GT(relative_as_changed(layer), 0.2 * expected) << scheme;
  }
}

TEST_F(Atom, LosesNoMoreThanNumpyWhenTheHeadIsTurned) {
  for (const char* bits : {"4", "3"}) {
    const double expected = golden("int" + std::string(bits), "atom rotated");
    const std::string scheme = "int" + std::string(bits) + "-sym-g64-a4g64c0.9-h16-tail16";
    const LayerWork layer =
        run_steps(scheme, {{"atom-reorder"}, {"hadamard"}, {"search"}, {"gptq"}});
    EXPECT_LE(relative_as_changed(layer), 1.005 * expected) << scheme;
    EXPECT_GT(relative_as_changed(layer), 0.2 * expected) << scheme;
  }
}

TEST_F(Atom, SearchGptqBeatsGptqBeatsRounding) {
  const std::string scheme = "int4-sym-g64-a4g64-tail16";
  const auto lost = [&](const std::vector<RecipeStep>& steps) {
    statistics_ = InputStatistics(StatisticsKind::kHessian, kInputs);
    SetUp();
    return relative_as_changed(run_steps(scheme, steps));
  };
  const double rtn = lost({{"atom-reorder"}, {"rtn"}});
  const double gptq = lost({{"atom-reorder"}, {"gptq"}});
  const double search = lost({{"atom-reorder"}, {"search"}, {"gptq"}});
  EXPECT_LT(gptq, rtn);
  EXPECT_LT(search, gptq);
}

// Codes, scales, order and tail through the operators: 8-bit heads, so that little is lost.
TEST_F(Atom, TheOperatorsComputeTheLayer) {
  for (const char* scheme : {"int4-sym-g64-a8g64-tail16", "int4-sym-g64-a8-h128-tail32"}) {
    statistics_ = InputStatistics(StatisticsKind::kHessian, kInputs);
    SetUp();
    std::vector<RecipeStep> steps = {{"atom-reorder"}, {"gptq"}};
    if (formats::parse_scheme(scheme).inputs.hadamard != 0) {
      steps.insert(steps.begin() + 1, {"hadamard"});
    }
    const LayerWork layer = run_steps(scheme, steps);
    ops::LinearSet set;
    set.id = 0;
    set.parts.push_back({"layer", *layer.packed, {}});
    const auto noise = core::normal_values(20 * kInputs, 5);
    ops::cpu::Matrix x = ops_.matrix(20, kInputs);
    std::copy(noise.begin(), noise.end(), x.data());
    ops_.prepare(set);
    auto input = ops_.input(x, set);
    const auto y = ops_.linear(input, set);
    ops_.release(set);
    double error = 0;
    double total = 0;
    for (std::int64_t t = 0; t < 20; ++t) {
      for (std::int64_t n = 0; n < kOutputs; ++n) {
        double expected = 0;
        for (std::int64_t j = 0; j < kInputs; ++j) {
          expected += static_cast<double>(x.row(t)[j]) *
                      weights_[static_cast<std::size_t>(n * kInputs + j)];
        }
        error += std::pow(static_cast<double>(y.row(t)[n]) - expected, 2);
        total += expected * expected;
      }
    }
    EXPECT_LT(std::sqrt(error / total), 0.25) << scheme;  // 4-bit weights; a wrong order gives 1.4
  }
}

TEST(AtomRecipes, TailsAreFittedToLayers) {
  const auto model = models::open_model(fs::path(NIBBLE_SOURCE_DIR) / "tests/families/llama");
  const auto schemes = layer_schemes(model->network, find_recipe("atom-rot-w4a4"));
  for (const auto& [name, scheme] : schemes) {
    EXPECT_EQ(formats::to_string(scheme), "int4-sym-g128-a4g128c0.9-h128-tail16") << name;
  }
  const auto pass = make_pass("atom-reorder", core::Json::object());
  const auto tail = [&](std::int64_t k) {
    return pass->scheme_for(formats::parse_scheme("int4-sym-g128-a4"), k).inputs.tail;
  };
  EXPECT_EQ(tail(4096), 128);
  EXPECT_EQ(tail(14336), 128);
  EXPECT_EQ(tail(2048), 64);
  EXPECT_EQ(tail(1408), 48);
  EXPECT_EQ(tail(512), 16);
  EXPECT_EQ(tail(64), 16);
  EXPECT_EQ(pass->scheme_for(formats::parse_scheme("int8-sym-row-a8"), 512).inputs.tail, 0);
  EXPECT_EQ(pass->scheme_for(formats::parse_scheme("int4-sym-g128-a4-tail32"), 512).inputs.tail,
            32);
}

// Every family, through the folder: what is read computes what was written.
TEST(AtomRecipes, ReadBackWhatTheyWrote) {
  const io::TemporaryFolder folder;
  const PipelineOptions options = small_job(2, 32, 1);
  for (const char* family : {"llama", "mixtral", "gpt2"}) {
    const auto model = models::open_model(fs::path(NIBBLE_SOURCE_DIR) / "tests/families" / family);
    const Recipe recipe = find_recipe("atom-rot-w4a4");
    quantize_model(*model, recipe, folder / family, options, false, core::silent_progress());
    const auto stored = models::open_model(folder / family);
    const auto memory = quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
    const auto read = models::linear_sets(std::as_const(stored->network.decoder.blocks[1]));
    const auto made = models::linear_sets(std::as_const(memory->network.decoder.blocks[1]));
    for (std::size_t s = 0; s < read.size(); ++s) {
      const formats::PackedWeight& weight = read[s]->parts[0].weight;
      const auto expected = formats::parts(made[s]->parts[0].weight);
      const auto got = formats::parts(weight);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t p = 0; p < got.size(); ++p) {
        EXPECT_EQ(got[p].name, expected[p].name);
        EXPECT_TRUE(std::equal(got[p].tensor.raw(), got[p].tensor.raw() + got[p].tensor.bytes(),
                               expected[p].tensor.raw()))
            << family << " " << read[s]->parts[0].name << " " << got[p].name;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::compress
