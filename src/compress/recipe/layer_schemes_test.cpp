#include "compress/recipe/layer_schemes.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "compress/pipeline/logits_for_tests.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<models::Model> family(const char* name) {
  return models::open_model(fs::path(NIBBLE_SOURCE_DIR) / "tests/families" / name);
}

Recipe from_json(const std::string& json) {
  const io::TemporaryFolder folder;
  return find_recipe(folder.write("nibble_layers.json", json).string());
}

Recipe with_layers(const std::string& layers, const std::string& passes = "\"rtn\"") {
  return from_json(R"({"scheme": "int4-asym-g16", "layers": )" + layers + R"(, "passes": [)" +
                   passes + "]}");
}

std::string refusal(const std::string& layers, const std::string& passes = "\"rtn\"") {
  try {
    const auto model = family("llama");
    (void)layer_schemes(model->network, with_layers(layers, passes));
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

TEST(LayerSchemes, TheFirstPatternThatMatchesWins) {
  const auto model = family("llama");
  const auto schemes = layer_schemes(
      model->network, with_layers(R"([{"match": "model.layers.0.*.down_proj", "scheme": "f16"},
                      {"match": ["*.down_proj", "*.[qk]_proj"], "scheme": "int8-sym-row-a8"}])"));
  const auto scheme = [&](const char* layer) { return formats::to_string(schemes.at(layer)); };
  EXPECT_EQ(scheme("model.layers.0.mlp.down_proj"), "f16");
  EXPECT_EQ(scheme("model.layers.1.mlp.down_proj"), "int8-sym-row-a8");
  EXPECT_EQ(scheme("model.layers.0.self_attn.q_proj"), "int8-sym-row-a8");
  EXPECT_EQ(scheme("model.layers.0.self_attn.k_proj"), "int8-sym-row-a8");
  EXPECT_EQ(scheme("model.layers.0.self_attn.v_proj"), "int4-asym-g16");
  EXPECT_EQ(scheme("model.layers.1.mlp.up_proj"), "int4-asym-g16");
}

TEST(LayerSchemes, PatternsThatDecideNothingAreRefusedWithTheNamesThereAre) {
  const std::string unknown = refusal(R"([{"match": "*.fc1", "scheme": "f16"}])");
  EXPECT_NE(unknown.find("'*.fc1'"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("model.layers.*.mlp.down_proj, "), std::string::npos) << unknown;
  EXPECT_EQ(unknown.find('\n'), std::string::npos) << unknown;
  EXPECT_NE(
      refusal(R"([{"match": "*", "scheme": "f16"}, {"match": "*.q_proj", "scheme": "bf16"}])"), "");
  EXPECT_EQ(refusal(R"([{"match": ["*.fc1", "*.up_proj"], "scheme": "f16"}])"), "");
}

// Before any work is done, and with the layer's name.
TEST(LayerSchemes, SchemesThatCannotHoldTheirLayerAreRefused) {
  const std::string message = refusal(R"([{"match": "*.down_proj", "scheme": "mxfp4"}])");
  EXPECT_NE(message.find("layer model.layers.0.mlp.down_proj: "), std::string::npos) << message;
  EXPECT_NE(message.find("mxfp4 needs inputs in multiples of 32"), std::string::npos) << message;
}

TEST(LayerSchemes, MalformedEntriesAreRefused) {
  for (const char* layers :
       {R"({"match": "*", "scheme": "f16"})", R"(["*"])", R"([{"scheme": "f16"}])",
        R"([{"match": 3, "scheme": "f16"}])", R"([{"match": [], "scheme": "f16"}])",
        R"([{"match": "", "scheme": "f16"}])", R"([{"match": "*"}])",
        R"([{"match": "*", "scheme": "int5"}])", R"([{"match": "*", "scheme": "f16", "x": 1}])"}) {
    EXPECT_NE(refusal(layers), "") << layers;
  }
}

TEST(LayerSchemes, PassesCheckEveryScheme) {
  EXPECT_NE(refusal(R"([{"match": "*.up_proj", "scheme": "lut4-row-g16"}])").find("learned"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"match": "*.up_proj", "scheme": "lut4-row-g16"}])", R"("any4", "rtn")")
                .find("int4-asym-g16 stores none"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"match": "*.up_proj", "scheme": "lut4-row-g16"}])", R"("search", "rtn")"),
            "");
  EXPECT_EQ(refusal(R"([{"match": "*.up_proj", "scheme": "f16"}])",
                    R"("awq", "search", "gptq", "refine")"),
            "");
}

// Layers that share an input may differ in bits, groups, and in what they want of the input.
TEST(LayerSchemes, LayersOfOneSetRunAsIfAlone) {
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kInt8});
  core::Random random(9);
  ops::LinearSet set{0, {}};
  for (const char* scheme :
       {"int4-asym-g16", "int8-sym-row-a8", "f16", "int3-sym-g32", "int8-sym-row-a8"}) {
    std::vector<float> w(24 * 64);
    for (float& value : w) {
      value = random.normal();
    }
    ops::Linear part;
    part.weight = formats::round_to_nearest(w, 24, 64, formats::parse_scheme(scheme));
    set.parts.push_back(std::move(part));
  }
  auto x = ops.matrix(5, 64);
  for (std::int64_t i = 0; i < 5 * 64; ++i) {
    x.data()[i] = random.normal();
  }
  ops.prepare(set);
  auto input = ops.input(x, set);
  const auto together = ops.linear(input, set);
  for (std::size_t part = 0; part < set.parts.size(); ++part) {
    const ops::LinearSet alone{static_cast<int>(part) + 1, {set.parts[part]}};
    ops.prepare(alone);
    auto own_input = ops.input(x, alone);
    const auto expected = ops.linear(own_input, alone);
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t j = 0; j < 24; ++j) {
        ASSERT_EQ(together.row(i)[static_cast<std::int64_t>(part) * 24 + j], expected.row(i)[j]);
      }
    }
  }
}

// Every pass beside a layer that stays in 16 bits: its weights change by nothing but the scales
// that AWQ moves, and the model opens with the schemes that the recipe gave.
TEST(LayerSchemes, DenseLayersStayBesideOthers) {
  const io::TemporaryFolder scratch;
  const fs::path folder = scratch / "out";
  const auto model = family("mistral");
  const PipelineOptions options = small_job(2, 32, 1);
  const std::string layers = R"([{"match": ["*.v_proj", "*.down_proj"], "scheme": "f32"},
                                 {"match": "*.q_proj", "scheme": "int3-sym-g32"}])";
  for (const char* passes : {"\"rtn\"", "\"gptq\"", R"("search", "gptq", "refine")",
                             R"("gptq", {"pass": "wanda", "after_rounding": true})"}) {
    const Recipe recipe = with_layers(layers, passes);
    quantize_model(*model, recipe, folder, options, false, core::silent_progress());
    const auto stored = models::open_model(folder);
    EXPECT_EQ(stored->compression.schemes, layer_schemes(model->network, recipe));
    const models::Block& block = stored->network.decoder.blocks[1];
    const models::Block& original = model->network.decoder.blocks[1];
    EXPECT_EQ(core::to_float32(block.mlp->down.parts[0].weight.dense),
              core::to_float32(original.mlp->down.parts[0].weight.dense));
    EXPECT_EQ(core::to_float32(block.attention.qkv.parts[2].weight.dense),
              core::to_float32(original.attention.qkv.parts[2].weight.dense));
    EXPECT_EQ(block.attention.qkv.parts[0].weight.scheme.code.bits, 3);
    fs::remove_all(folder);
  }
  const Recipe all = from_json(
      R"({"scheme": "int8-sym-row", "layers": [{"match": "*", "scheme": "f32"}],
          "passes": [{"pass": "awq", "clip": true}, "gptq"]})");
  const auto scaled = quantize_in_memory(*model, all, options, core::silent_progress()).model;
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  const std::vector<float> before = logits(model->network, ops);
  const std::vector<float> after = logits(scaled->network, ops);
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_NEAR(after[i], before[i], 1e-4) << i;
  }
}

}  // namespace
}  // namespace nibble::compress
