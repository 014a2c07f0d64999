#include "compress/rotate/model_rotation.h"

#include <cmath>
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

const fs::path kSource = NIBBLE_SOURCE_DIR;

Recipe from_json(const std::string& json) {
  const io::TemporaryFolder folder;
  return find_recipe(folder.write("nibble_rotate.json", json).string());
}

// Nothing is rounded but to float32.
Recipe only_rotate() {
  return from_json(R"({"scheme": "f32", "passes": [{"pass": "rotate", "seed": 7}, "rtn"]})");
}

PipelineOptions small_options() {
  return small_job(2, 32, 2);
}

// |a - b| / |b|.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / size);
}

// Norm weights and biases far from 1 and 0, so that folding them matters.
void shake_norms(models::Network& network) {
  core::Random random(11);
  const auto shake = [&](ops::Norm& norm) {
    for (float& value : norm.weight) {
      value *= std::exp(0.5f * random.normal());
    }
    for (float& value : norm.bias) {
      value += 0.3f * random.normal();
    }
  };
  for (models::Block& block : network.decoder.blocks) {
    shake(block.attention_norm);
    shake(block.mlp_norm);
  }
  shake(*network.decoder.final_norm);
}

class ModelRotations : public testing::TestWithParam<const char*> {};

// RMSNorm and LayerNorm, tied and untied outputs, biases, query heads that share value heads, head
// sizes of which the Hadamard matrix is not symmetric (12), learned positions, experts and router.
TEST_P(ModelRotations, KeepWhatTheModelComputes) {
  const auto model = models::open_model(kSource / "tests/families" / GetParam());
  shake_norms(model->network);
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const std::vector<float> before = logits(model->network, ops);
  const auto rotated =
      quantize_in_memory(*model, only_rotate(), small_options(), core::silent_progress()).model;
  const std::vector<float> after = logits(rotated->network, ops);
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_NEAR(after[i], before[i], 1e-4) << i;
  }
  EXPECT_LT(relative_difference(after, before), 1e-5);
  for (const models::Block& block : rotated->network.decoder.blocks) {
    EXPECT_EQ(block.attention_norm.weight, std::vector<float>(block.mlp_norm.weight.size(), 1.0f));
    EXPECT_EQ(block.mlp_norm.weight, block.attention_norm.weight);
  }
}

TEST_P(ModelRotations, StoreWhatOpensAgain) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families" / GetParam());
  quantize_model(*model, only_rotate(), folder / "out", small_options(), false,
                 core::silent_progress());
  const auto stored = models::open_model(folder / "out");
  EXPECT_FALSE(stored->network.config.tied_output);
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  EXPECT_LT(relative_difference(logits(stored->network, ops), logits(model->network, ops)), 1e-5);
  EXPECT_GT(relative_difference(core::to_float32(stored->network.embeddings.tokens.plain()),
                                core::to_float32(model->network.embeddings.tokens.plain())),
            0.5);
}

// The passes behind it work on turned weights and their statistics, the same in file and memory.
TEST_P(ModelRotations, GoBeforeOtherPasses) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families" / GetParam());
  const Recipe recipe = find_recipe("quarot-awq-gptq-w8g16");
  PipelineOptions options = small_options();
  quantize_model(*model, recipe, folder / "out", options, false, core::silent_progress());
  options.threads = 1;
  const auto in_memory = quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
  const auto stored = models::open_model(folder / "out");
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  const std::vector<float> of_file = logits(stored->network, ops);
  EXPECT_EQ(of_file, logits(in_memory->network, ops));
  EXPECT_LT(relative_difference(of_file, logits(model->network, ops)), 0.05);
}

// The input of every MLP's last layer is turned online, whatever the family calls that layer.
TEST_P(ModelRotations, ComeWithOnlineHadamardsIn4Bits) {
  const auto model = models::open_model(kSource / "tests/families" / GetParam());
  const auto quantized = quantize_in_memory(*model, find_recipe("quarot-w4a4"), small_options(),
                                            core::silent_progress())
                             .model;
  for (const models::Block& block : quantized->network.decoder.blocks) {
    std::vector<const models::Mlp*> mlps;
    if (block.mlp) {
      mlps.push_back(&*block.mlp);
    }
    for (const models::Mlp& expert : block.experts) {
      mlps.push_back(&expert);
    }
    for (const models::Mlp* mlp : mlps) {
      EXPECT_EQ(mlp->up.parts[0].weight.scheme.inputs.hadamard, 0);
      EXPECT_EQ(formats::to_string(mlp->down.parts[0].weight.scheme), "int4-sym-g128-a4c0.9-hrow");
    }
    EXPECT_EQ(formats::to_string(block.attention.out.parts[0].weight.scheme),
              "int4-sym-g128-a4c0.9");
  }
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  // Random weights are as hard as it gets; unrelated logits differ by 1.4.
  EXPECT_LT(relative_difference(logits(quantized->network, ops), logits(model->network, ops)), 0.8);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelRotations,
                         testing::Values("llama", "llama-bias-tied", "mistral", "qwen2",
                                         "qwen2-window", "qwen3", "mixtral", "llama3-rope", "gpt2",
                                         "opt", "qwen3-moe", "phi3", "gemma"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Norms of what is added to the stream scale its channels.
TEST(ModelRotation, RefusesNormsBehindLayers) {
  for (const char* family : {"gemma2", "gemma3-text"}) {
    const auto model = models::open_model(kSource / "tests/families" / family);
    try {
      ModelRotation(model->network, 1);
      ADD_FAILURE() << family;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find("norms of what its layers add"), std::string::npos)
          << error.what();
    }
  }
}

// The turned embedding and output of a bfloat16 model are float16.
TEST(ModelRotation, CostsTheLogitsOfA16BitModelLittle) {
  const auto model = models::open_model(kSource / "models/demo");
  ASSERT_EQ(model->network.embeddings.tokens.plain().dtype(), core::DType::kBF16);
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const std::vector<float> before = logits(model->network, ops);
  const auto f32 =
      quantize_in_memory(*model, only_rotate(), small_options(), core::silent_progress()).model;
  EXPECT_EQ(f32->network.embeddings.tokens.plain().dtype(), core::DType::kF16);
  EXPECT_EQ(f32->network.output.parts[0].weight.dense.dtype(), core::DType::kF16);
  EXPECT_LT(relative_difference(logits(f32->network, ops), before), 1e-3);
  const auto f16 = quantize_in_memory(*model, find_recipe("quarot-f16"), small_options(),
                                      core::silent_progress())
                       .model;
  EXPECT_LT(relative_difference(logits(f16->network, ops), before), 1e-3);
}

// Logits as the model runs: layers with quantized activations quantize them.
std::vector<float> quantized_logits(const models::Network& network) {
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  for (const models::Block& block : network.decoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      ops.prepare(*set);
    }
  }
  return logits(network, ops);
}

// What rotations are for: activations of 4 bits lose much less, with the one before down_proj
// turned online least.
TEST(ModelRotation, PaysForActivationsIn4Bits) {
  const auto model = models::open_model(kSource / "models/demo");
  const std::vector<float> expected = quantized_logits(model->network);
  const auto error = [&](const std::string& layers, const std::string& passes) {
    const Recipe recipe = from_json(R"({"scheme": "int8-sym-g128-a4", "layers": [)" + layers +
                                    R"(], "passes": [)" + passes + "]}");
    const auto result =
        quantize_in_memory(*model, recipe, small_options(), core::silent_progress()).model;
    return relative_difference(quantized_logits(result->network), expected);
  };
  const double plain = error("", R"("rtn")");
  const double offline = error("", R"("rotate", "rtn")");
  const double online = error(R"({"match": "*.down_proj", "scheme": "int8-sym-g128-a4-hrow"})",
                              R"("rotate", "hadamard", "rtn")");
  EXPECT_LT(offline, 0.9 * plain);
  EXPECT_LT(online, 0.8 * offline);
}

TEST(ModelRotation, GoesOnAfterAnInterruptionAndEndsInTheSameBytes) {
  const io::TemporaryFolder folder;
  for (const char* family : {"llama-bias-tied", "mixtral", "gpt2"}) {
    const auto model = models::open_model(kSource / "tests/families" / family);
    const Recipe recipe = find_recipe("quarot-gptq-w4g16");
    PipelineOptions options = small_job_on_text(2, 32, 2);
    Interrupted stop(" finished");
    EXPECT_ANY_THROW(quantize_model(*model, recipe, folder / "resumed", options, false, stop));
    EXPECT_THROW(quantize_model(*model, find_recipe("gptq-w4g16"), folder / "resumed", options,
                                true, core::silent_progress()),
                 core::Error);
    quantize_model(*model, recipe, folder / "resumed", options, true, core::silent_progress());
    options.threads = 1;
    quantize_model(*model, recipe, folder / "whole", options, false, core::silent_progress());
    EXPECT_EQ(io::folder_contents(folder / "resumed"), io::folder_contents(folder / "whole"))
        << family;
    fs::remove_all(folder / "resumed");
    fs::remove_all(folder / "whole");
  }
}

TEST(ModelRotation, RefusesWhatItCannotTurn) {
  models::Network network;
  models::NetworkConfig& config = network.config;
  network.decoder.final_norm = ops::Norm();
  config.hidden = 172;
  config.head_dim = 4;
  EXPECT_THROW(ModelRotation(network, 0), core::Error);
  config.hidden = 8;
  config.head_dim = 6;
  EXPECT_THROW(ModelRotation(network, 0), core::Error);
  config.head_dim = 4;
  EXPECT_NO_THROW(ModelRotation(network, 0));
  models::Network projected = network;
  projected.project_out = ops::LinearSet();
  EXPECT_THROW(ModelRotation(projected, 0), core::Error);
  models::Network post_norm = network;
  post_norm.decoder.norms = models::NormPlacement::kPost;
  EXPECT_THROW(ModelRotation(post_norm, 0), core::Error);
  network.decoder.final_norm.reset();
  EXPECT_THROW(ModelRotation(network, 0), core::Error);
  for (const char* passes :
       {R"("rtn", "rotate")", R"("smoothquant", "rotate", "rtn")", R"("rotate", "rotate", "rtn")",
        R"("rotate")", R"({"pass": "rotate", "seed": -1}, "rtn")"}) {
    EXPECT_THROW(from_json(fmt::format(R"({{"scheme": "int4-asym-g16", "passes": [{}]}})", passes)),
                 core::Error)
        << passes;
  }
}

}  // namespace
}  // namespace nibble::compress
