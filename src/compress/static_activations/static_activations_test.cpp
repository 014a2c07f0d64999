#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "compress/recipe/part_words.h"
#include "compress/recipe/recipe.h"
#include "core/error.h"
#include "io/temporary_folder_for_tests.h"
#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<models::Model> family(const char* name) {
  return models::open_model(fs::path(NIBBLE_SOURCE_DIR) / "tests/families" / name);
}

std::string refusal(const std::string& json) {
  const io::TemporaryFolder folder;
  try {
    (void)find_recipe(folder.write("recipe.json", json).string());
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

std::map<std::string, float> scales_of(const models::Network& network) {
  std::map<std::string, float> scales;
  for (const models::Block* block : models::all_blocks(network)) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      for (const ops::Linear& part : set->parts) {
        if (part.weight.scheme.activation.stored_scale) {
          scales.emplace(part.name, formats::input_scale_of(part.weight));
        }
      }
    }
  }
  return scales;
}

TEST(StaticActivations, RecipesNeedThePassAndThePassAScheme) {
  const Recipe recipe = find_recipe("w8a8s");
  EXPECT_EQ(formats::to_string(recipe.scheme), "int8-sym-row-a8s");
  EXPECT_EQ(recipe.steps.back().pass, "static-activations");
  EXPECT_EQ(formats::to_string(find_recipe("rtn-w4g64-a8s").scheme), "int4-asym-g64-a8s");
  EXPECT_NE(refusal(R"({"scheme": "int8-sym-row-a8s", "passes": ["rtn"]})")
                .find("add the pass 'static-activations'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"scheme": "int8-sym-row-a8", "passes": ["rtn", "static-activations"]})")
                .find("has none"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"scheme": "int4-sym-g32-a8s",
                        "passes": ["rtn", "static-activations", "refine"]})")
                .find("which is the last"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"scheme": "int4-sym-g32-a8s",
                        "passes": ["rtn", {"pass": "static-activations", "clip": 2}]})"),
            "");
}

// Layers that share an input have one scale; clipping narrows all of them.
TEST(StaticActivations, ScalesAreThoseOfTheCalibrationTexts) {
  const auto model = family("llama");
  const PipelineOptions options = small_job(2, 32, 1);
  const auto made =
      quantize_in_memory(*model, find_recipe("w8a8s"), options, core::silent_progress()).model;
  const auto scales = scales_of(made->network);
  EXPECT_EQ(scales.size(), 14u);
  EXPECT_EQ(scales.at("model.layers.0.self_attn.q_proj"),
            scales.at("model.layers.0.self_attn.v_proj"));
  EXPECT_NE(scales.at("model.layers.0.self_attn.q_proj"),
            scales.at("model.layers.0.self_attn.o_proj"));
  EXPECT_NE(scales.at("model.layers.0.mlp.down_proj"), scales.at("model.layers.1.mlp.down_proj"));
  for (const auto& [name, scale] : scales) {
    EXPECT_GT(scale, 1e-6f) << name;
    EXPECT_LT(scale, 1.0f) << name;
    EXPECT_NE(scale, 1.0f) << name << " has the scale that weights begin with";
  }
  const io::TemporaryFolder folder;
  const auto file = folder.write("half.json", R"({"scheme": "int8-sym-row-a8s",
      "passes": ["rtn", {"pass": "static-activations", "clip": 0.5}]})");
  const auto half = scales_of(
      quantize_in_memory(*model, find_recipe(file.string()), options, core::silent_progress())
          .model->network);
  EXPECT_FLOAT_EQ(half.at("model.layers.0.self_attn.q_proj"),
                  0.5f * scales.at("model.layers.0.self_attn.q_proj"));
}

// In the first block nothing was rounded before: the scale is max |norm(embedding)| / 127, over
// what the calibration texts hold. Every token of the vocabulary bounds it.
TEST(StaticActivations, TheFirstScaleIsBoundByTheEmbedding) {
  const auto model = family("llama");
  const auto made =
      quantize_in_memory(*model, find_recipe("w8a8s"), small_job(2, 32, 1), core::silent_progress())
          .model;
  const models::Network& network = model->network;
  const std::vector<float> rows = core::to_float32(network.embeddings.tokens);
  const auto hidden = static_cast<std::size_t>(network.config.hidden);
  const ops::Norm& norm = network.decoder.blocks[0].attention_norm;
  float most = 0.0f;
  for (std::size_t row = 0; row < rows.size(); row += hidden) {
    double squares = 0;
    for (std::size_t i = 0; i < hidden; ++i) {
      squares += static_cast<double>(rows[row + i]) * rows[row + i];
    }
    const double root = std::sqrt(squares / static_cast<double>(hidden) + norm.eps);
    for (std::size_t i = 0; i < hidden; ++i) {
      most = std::max(most, static_cast<float>(std::fabs(rows[row + i] / root * norm.weight[i])));
    }
  }
  const float scale = scales_of(made->network).at("model.layers.0.self_attn.q_proj");
  EXPECT_LE(127 * scale, most * 1.0001f);
  EXPECT_GT(127 * scale, most * 0.3f);
}

TEST(StaticActivations, StoredAndOpenedTheScalesAreThere) {
  const io::TemporaryFolder scratch;
  const auto model = family("opt");
  const PipelineOptions options = small_job(2, 32, 1);
  const Recipe base = find_recipe("i8-qall");
  const Recipe recipe = with_parts(base, parse_part_schemes("qkv=w8a8s,mlp-out=w4a8sg32", base));
  EXPECT_EQ(recipe.steps.back().pass, "static-activations");
  quantize_model(*model, recipe, scratch / "out", options, false, core::silent_progress());
  const auto stored = models::open_model(scratch / "out");
  const auto made = quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
  EXPECT_EQ(scales_of(stored->network).size(), 8u);
  EXPECT_EQ(scales_of(stored->network), scales_of(made->network));
}

}  // namespace
}  // namespace nibble::compress
