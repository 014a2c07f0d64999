#include <algorithm>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "compress/calibration/encoder_texts.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "compress/recipe/part_words.h"
#include "compress/recipe/recipe.h"
#include "core/error.h"
#include "io/temporary_folder_for_tests.h"
#include "models/encoder_forward.h"
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
  const std::vector<float> rows = core::to_float32(network.embeddings.tokens.plain());
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

// Lines that are texts of an encoder and pairs of an encoder-decoder.
PipelineOptions small_pairs() {
  PipelineOptions options = small_job(4, 32, 2);
  options.calibration.texts = {std::make_shared<const std::string>(
      "t3 t9 t40 t7\tt5 t8\nt33 t3 t21 t60 t12\tt44\nt50 t6\tt31 t7 t9 t9\nt18 t18 t4\tt28\n")};
  return options;
}

Recipe at_percentile(double percentile, const std::string& more = "") {
  const io::TemporaryFolder folder;
  return find_recipe(
      folder
          .write("p.json", fmt::format(R"({{"scheme": "int8-sym-row-a8s", {} {{"pass":
            "static-activations", "percentile": {}}}]}})",
                                       more.empty() ? R"("passes": ["rtn",)" : more, percentile))
          .string());
}

std::map<std::string, float> scales_of(const char* name, const Recipe& recipe) {
  return scales_of(quantize_in_memory(*family(name), recipe, small_pairs(), core::silent_progress())
                       .model->network);
}

// The first block of a post-norm encoder reads the embeddings as they are.
TEST(StaticActivations, PercentilesAreThoseOfWhatTheFirstBlockReads) {
  const auto model = family("bert-texts");
  const CalibrationInputs texts = read_encoder_texts(*model, small_pairs().calibration);
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  std::vector<float> magnitudes;
  for (const CalibrationPack& pack : texts.encoder) {
    const PackBatch batch(pack);
    const auto x = models::embed_for_encoder(ops, model->network, batch.batch());
    for (const float value : x.values()) {
      magnitudes.push_back(std::fabs(value));
    }
  }
  std::sort(magnitudes.begin(), magnitudes.end());
  ASSERT_GT(magnitudes.size(), 500u);
  const std::string query = "bert.encoder.layer.0.attention.self.query";
  EXPECT_FLOAT_EQ(scales_of("bert-texts", find_recipe("w8a8s")).at(query), magnitudes.back() / 127);
  for (const double percent : {60.0, 99.0, 99.9}) {
    const auto rank =
        static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(magnitudes.size())));
    const float exact = magnitudes[rank - 1] / 127;
    const float scale = scales_of("bert-texts", at_percentile(percent)).at(query);
    EXPECT_GE(scale, exact * 0.9999f) << percent;
    EXPECT_LE(scale, exact * (1 + 1.0f / 256)) << percent;
  }
}

// Every layer of both stacks has a scale, and a lower percentile gives smaller ones.
TEST(StaticActivations, ServeEncodersAndEncoderDecoders) {
  for (const auto& [name, layers] : {std::pair("bert-texts", 12u), std::pair("roberta-texts", 12u),
                                     std::pair("bart", 42u), std::pair("mbart", 42u)}) {
    const auto largest = scales_of(name, find_recipe("w8a8s"));
    const auto shares = scales_of(name, at_percentile(95));
    EXPECT_EQ(largest.size(), layers) << name;
    ASSERT_EQ(shares.size(), layers) << name;
    for (const auto& [layer, scale] : largest) {
      EXPECT_NE(scale, 1.0f) << layer;
      EXPECT_LT(shares.at(layer), scale) << layer;
      EXPECT_GT(shares.at(layer), 0.05f * scale) << layer;
    }
  }
}

// Scaled inputs are counted anew, or not at all.
TEST(StaticActivations, PercentilesOfScaledInputsAreMeasuredBehindTheScaling) {
  const std::string smooth = R"("passes": ["smoothquant", "rtn",)";
  EXPECT_NE(refusal(R"({"scheme": "int8-sym-row-a8s", "passes": ["smoothquant", "rtn",
                        {"pass": "static-activations", "percentile": 99}]})")
                .find("true_sequential"),
            std::string::npos);
  const auto plain = scales_of("mbart", at_percentile(99));
  const auto scaled =
      scales_of("mbart", at_percentile(99, R"("true_sequential": true, )" + smooth));
  const std::string query = "model.encoder.layers.0.self_attn.q_proj";
  EXPECT_NE(scaled.at(query), plain.at(query));
}

}  // namespace
}  // namespace nibble::compress
