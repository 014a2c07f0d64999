#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "core/json.h"
#include "core/temporary_folder_for_tests.h"
#include "io/json_file.h"
#include "models/family.h"
#include "models/model.h"

// How config.json of some families is read: what stands in published files in another shape than in
// those of tests/families, and what is refused.
namespace nibble::models {
namespace {

using core::Json;

const std::filesystem::path kFamilies =
    std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

Json config_of(const std::string& name) {
  return io::load_json_file(kFamilies / name / "config.json");
}

Architecture read(const Json& config) {
  return find_family(config.at("model_type").get<std::string>()).read_config(config);
}

// The reader's message, which is one of an invalid model.
std::string refusal(const Json& config) {
  try {
    read(config);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel) << error.what();
    return error.what();
  }
  return "";
}

// Gemma 3 as files say it that older versions of transformers wrote.
TEST(Gemma3Config, OlderFilesSayTheSame) {
  Json config = config_of("gemma3-text");
  const Architecture newer = read(config);
  config.erase("rope_parameters");
  config.erase("layer_types");
  config["rope_theta"] = 5000.0;
  config["rope_local_base_freq"] = 100.0;
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  config["sliding_window_pattern"] = 3;
  const Architecture older = read(config);
  EXPECT_EQ(older.config.inverse_frequency, newer.config.inverse_frequency);
  EXPECT_EQ(older.config.local_inverse_frequency, newer.config.local_inverse_frequency);
  EXPECT_NE(older.config.local_inverse_frequency, older.config.inverse_frequency);
  EXPECT_EQ(older.config.windows, (std::vector<std::int64_t>{9, 9, 0, 9}));
  EXPECT_EQ(older.config.windows, newer.config.windows);
}

// text_config of published files leaves out what is as in transformers' defaults.
TEST(Gemma3Config, HasTheDefaultsOfTransformers) {
  const Json config = {{"model_type", "gemma3"},
                       {"dtype", "bfloat16"},
                       {"eos_token_id", {1, 106}},
                       {"text_config",
                        {{"hidden_size", 3840},
                         {"intermediate_size", 15360},
                         {"num_hidden_layers", 12},
                         {"num_attention_heads", 16},
                         {"num_key_value_heads", 8},
                         {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                         {"sliding_window", 1024}}}};
  const Architecture read_one = read(config);
  EXPECT_EQ(read_one.config.head_dim, 256);
  EXPECT_EQ(read_one.config.vocabulary, 262208);
  EXPECT_EQ(read_one.config.eos, (std::vector<std::int32_t>{1, 106}));
  EXPECT_TRUE(read_one.config.tied_output);
  EXPECT_EQ(read_one.config.windows[5], 0);
  EXPECT_EQ(read_one.config.windows[6], 1024);
  EXPECT_EQ(read_one.embedding_scale, 62.0f) << "61.97 in bfloat16";
  EXPECT_EQ(read_one.score_scale, 0.0f) << "the root of the head size";
  EXPECT_FLOAT_EQ(read_one.config.inverse_frequency[1],
                  static_cast<float>(std::pow(1e6, -2.0 / 256) / 8));
  EXPECT_FLOAT_EQ(read_one.config.local_inverse_frequency[1],
                  static_cast<float>(std::pow(1e4, -2.0 / 256)));
}

TEST(Gemma3Config, NeedsItsText) {
  EXPECT_NE(refusal({{"model_type", "gemma3"}}).find("text_config"), std::string::npos);
  Json config = config_of("gemma3-text");
  config["use_bidirectional_attention"] = true;
  EXPECT_NE(refusal(config).find("use_bidirectional_attention"), std::string::npos);
}

TEST(Gemma2Config, CapsMayBeOff) {
  Json config = config_of("gemma2");
  EXPECT_EQ(read(config).score_softcap, 1.5f);
  config["attn_logit_softcapping"] = nullptr;
  config.erase("final_logit_softcapping");
  const Architecture architecture = read(config);
  EXPECT_EQ(architecture.score_softcap, 0.0f);
  EXPECT_EQ(architecture.config.logit_softcap, 30.0f) << "as transformers has it";
  config["attn_logit_softcapping"] = -1;
  EXPECT_NE(refusal(config).find("attn_logit_softcapping"), std::string::npos);
}

// The first files of Gemma say "gelu" and mean its approximation.
TEST(GemmaConfig, ActivationIsTheApproximation) {
  Json config = config_of("gemma");
  config["hidden_act"] = "gelu";
  EXPECT_EQ(read(config).config.activation, ops::MlpActivation::kGeluTanh);
  config["hidden_activation"] = nullptr;
  EXPECT_EQ(read(config).config.activation, ops::MlpActivation::kGeluTanh);
}

TEST(Phi3Config, HasTwoRotations) {
  Json config = config_of("phi3-long-rope");
  const Architecture newer = read(config);
  EXPECT_EQ(newer.config.max_positions, 24);
  ASSERT_TRUE(newer.config.long_rope);
  EXPECT_EQ(newer.config.long_rope->positions, 128);
  EXPECT_FLOAT_EQ(newer.config.rope_factor,
                  static_cast<float>(std::sqrt(1 + std::log(128.0 / 24) / std::log(24.0))));
  const Json factors = config["rope_parameters"];
  config.erase("rope_parameters");
  for (const char* name : {"su", "yarn", "longrope"}) {
    config["rope_scaling"] = {{"type", name},
                              {"short_factor", factors["short_factor"]},
                              {"long_factor", factors["long_factor"]}};
    const Architecture older = read(config);
    EXPECT_EQ(older.config.inverse_frequency, newer.config.inverse_frequency) << name;
    EXPECT_EQ(older.config.long_rope->inverse_frequency, newer.config.long_rope->inverse_frequency);
    EXPECT_EQ(older.config.rope_factor, newer.config.rope_factor) << name;
  }
}

TEST(Phi3Config, RefusesListsOfAnotherLength) {
  for (const Json& wrong : {Json({1.0, 2.0}), Json({1.0, 2.0, 0.0, 4.0}), Json("1"), Json()}) {
    Json config = config_of("phi3-long-rope");
    config["rope_parameters"]["long_factor"] = wrong;
    EXPECT_NE(refusal(config).find("long_factor"), std::string::npos) << wrong;
  }
  Json config = config_of("phi3-long-rope");
  config["rope_parameters"]["original_max_position_embeddings"] = 1000;
  EXPECT_NE(refusal(config).find("original_max_position_embeddings"), std::string::npos);
}

// Short texts turn by one set of frequencies, and by the other once long ones are wanted.
TEST(LongRope, TakesTheFrequenciesOfTheContext) {
  const auto model = open_model(kFamilies / "phi3-long-rope");
  Network& network = model->network;
  const std::vector<float> near = network.decoder.blocks[1].attention.spec.inverse_frequency;
  const std::vector<float> far = network.config.long_rope->inverse_frequency;
  use_context(network, 24);
  EXPECT_EQ(network.decoder.blocks[1].attention.spec.inverse_frequency, near);
  EXPECT_EQ(network.config.max_positions, 24);
  use_context(network, 25);
  EXPECT_EQ(network.decoder.blocks[1].attention.spec.inverse_frequency, far);
  EXPECT_NE(near, far);
  EXPECT_EQ(network.config.max_positions, 128);
  use_context(network, 1000);
  EXPECT_EQ(network.config.max_positions, 128);
}

TEST(Qwen3MoeConfig, SaysWhichLayersHaveExperts) {
  Json config = config_of("qwen3-moe");
  config["num_hidden_layers"] = 6;
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {3};
  EXPECT_EQ(read(config).dense_ffn, (std::vector<std::int64_t>{48, 0, 48, 48, 48, 0}));
  config["mlp_only_layers"] = {6};
  EXPECT_NE(refusal(config).find("mlp_only_layers"), std::string::npos);
  config["mlp_only_layers"] = "1";
  EXPECT_NE(refusal(config).find("mlp_only_layers"), std::string::npos);
}

TEST(Families, SharedExpertsAreRefusedByName) {
  EXPECT_NE(refusal({{"model_type", "qwen2_moe"}}), "");
}

// The tokenizer of the smallest Gemma 3 has a token for images, and the model no row.
TEST(Gemma3, SpecialTokensMayHaveNoRow) {
  const core::TemporaryFolder scratch;
  const std::filesystem::path folder = scratch / "model";
  std::filesystem::copy(kFamilies / "gemma3-text", folder);
  Json tokenizer = io::load_json_file(folder / "tokenizer.json");
  for (const bool special : {true, false}) {
    tokenizer["added_tokens"] = {{{"id", 64},
                                  {"content", "<image_soft_token>"},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", special}}};
    scratch.write("model/tokenizer.json", tokenizer.dump());
    if (special) {
      EXPECT_EQ(open_model(folder)->tokenizer->vocab_size(), 65);
    } else {
      EXPECT_THROW((void)open_model(folder), core::Error);
    }
  }
}

// Tensors of images are left out with a remark; what belongs to no known part is an error.
TEST(Gemma3, LeavesImagesOut) {
  const auto model = open_model(kFamilies / "gemma3");
  ASSERT_EQ(model->compression.remarks.size(), 2u);
  EXPECT_NE(model->compression.remarks[0].find("'multi_modal_projector.*' are left out"),
            std::string::npos)
      << model->compression.remarks[0];
  EXPECT_NE(model->compression.remarks[1].find("'vision_tower.*'"), std::string::npos);
}

}  // namespace
}  // namespace nibble::models
