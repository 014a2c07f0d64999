#include <filesystem>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "compress/shortgpt/block_influence.h"
#include "compress/shortgpt/remove_blocks.h"
#include "core/error.h"
#include "core/json.h"
#include "io/json_file.h"
#include "io/temporary_folder_for_tests.h"
#include "models/fewer_blocks.h"
#include "models/forward.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

using ops::cpu::CpuOps;

const fs::path kSource = NIBBLE_SOURCE_DIR;

std::shared_ptr<models::Model> demo() {
  return models::open_model(kSource / "models/demo");
}

std::vector<float> states(const models::Network& network, const std::vector<std::int32_t>& tokens) {
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const CalibrationPack pack{tokens, {}, {std::ssize(tokens)}};
  const auto x = models::hidden_states(ops, network, PackBatch(pack).batch());
  return {x.values().begin(), x.values().end()};
}

std::string refusal(const models::Model& model, const Recipe& recipe) {
  try {
    (void)quantize_in_memory(model, recipe, small_job_on_text(1, 64, 2), core::silent_progress());
    return "";
  } catch (const core::Error& error) {
    return error.what();
  }
}

// tests/reference/make_block_influence.py, in NumPy.
TEST(BlockInfluence, IsThatOfAnIndependentForwardPass) {
  const core::Json golden = io::load_json_file(kSource / "tests/reference/block_influence.json");
  const auto model = demo();
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const auto inputs = decoder_inputs(golden.at("tokens").get<CalibrationWindows>());
  const std::vector<double> influence = block_influence(model->network, inputs, ops);
  const auto expected = golden.at("influence").get<std::vector<double>>();
  ASSERT_EQ(influence.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(influence[i], expected[i], 1e-5) << i;
  }
}

TEST(BlockInfluence, TheLeastGoAndOfEqualsTheFirst) {
  const std::vector<double> influence = {0.5, 0.1, 0.3, 0.1, 0.2};
  EXPECT_EQ(least_influential(influence, 1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(least_influential(influence, 3), (std::vector<std::int64_t>{1, 3, 4}));
}

TEST(FewerBlocks, AreTheOthersUnderNewNumbers) {
  const auto model = demo();
  const std::vector<std::int64_t> removed = {1, 4};
  const auto fewer = models::without_blocks(*model, removed);
  EXPECT_EQ(fewer->network.config.layers, 4);
  EXPECT_EQ(fewer->config_json->at("num_hidden_layers"), 4);
  EXPECT_EQ(fewer->network.decoder.blocks[3].mlp_norm.name,
            "model.layers.3.post_attention_layernorm");
  models::Network expected = model->network;
  expected.decoder.blocks.erase(expected.decoder.blocks.begin() + 4);
  expected.decoder.blocks.erase(expected.decoder.blocks.begin() + 1);
  const std::vector<std::int32_t> tokens = {5, 1000, 77, 8000, 12};
  EXPECT_EQ(states(fewer->network, tokens), states(expected, tokens));
  EXPECT_NE(states(fewer->network, tokens), states(model->network, tokens));
  EXPECT_FALSE(fewer->source->contains("model.layers.4.mlp.up_proj.weight"));
  EXPECT_THROW((void)fewer->source->load("model.layers.4.mlp.up_proj.weight"), core::Error);
}

// Whatever a family calls its tensors.
TEST(FewerBlocks, OfEveryFamily) {
  for (const char* family : {"llama", "gpt2", "opt", "opt-post-norm", "mixtral", "phi3", "gemma2",
                             "gemma3", "qwen2-window"}) {
    const auto model = models::open_model(kSource / "tests/families" / family);
    const auto fewer = models::without_blocks(*model, std::vector<std::int64_t>{0});
    models::Network expected = model->network;
    expected.decoder.blocks.erase(expected.decoder.blocks.begin());
    EXPECT_EQ(fewer->network.decoder.blocks.size(), expected.decoder.blocks.size()) << family;
    const std::vector<std::int32_t> tokens = {3, 10, 7, 21, 12};
    EXPECT_EQ(states(fewer->network, tokens), states(expected, tokens)) << family;
  }
}

// Only some layers of it have experts, by their numbers.
TEST(FewerBlocks, MayNotBecomeOthers) {
  const auto model = models::open_model(kSource / "tests/families/qwen3-moe");
  EXPECT_THROW((void)models::without_blocks(*model, std::vector<std::int64_t>{0}), core::Error);
  EXPECT_NO_THROW((void)models::without_blocks(*model, std::vector<std::int64_t>{2}));
}

TEST(ShortGpt, WritesAModelOfFewerLayers) {
  const auto model = demo();
  const io::TemporaryFolder folder;
  const PipelineOptions options = small_job_on_text(2, 128, 2);
  const Recipe recipe = find_recipe("shortgpt2-gptq-w4g128");
  Interrupted progress("");
  quantize_model(*model, recipe, folder.path() / "short", options, false, progress);
  EXPECT_NE(progress.messages().find("influence of blocks"), std::string::npos);
  EXPECT_NE(progress.messages().find("(removed)"), std::string::npos);
  const auto written = models::open_model(folder.path() / "short");
  EXPECT_EQ(written->network.decoder.blocks.size(), 4u);
  EXPECT_EQ(written->compression.schemes.size(), 4u * 7);
  const auto in_memory = quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
  const std::vector<std::int32_t> tokens = {5, 1000, 77, 8000, 12};
  EXPECT_EQ(states(written->network, tokens), states(in_memory->network, tokens));
}

TEST(ShortGpt, RefusesWhatMakesNoSense) {
  const auto model = demo();
  EXPECT_NE(refusal(*model, find_recipe("shortgpt6")).find("one at least must stay"),
            std::string::npos);
  models::Model made = *model;
  made.source = nullptr;
  EXPECT_NE(refusal(made, find_recipe("shortgpt1")).find("opened from files"), std::string::npos);
  const auto encoder = models::open_model(kSource / "tests/families/bert");
  EXPECT_NE(refusal(*encoder, find_recipe("shortgpt1")).find("has an encoder"), std::string::npos);
}

}  // namespace
}  // namespace nibble::compress
