#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <ostream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "engine/runner.h"
#include "io/json_file.h"

// That the golden values of tests/families see each feature of a family: without it the logits are
// others.
namespace nibble::engine {
namespace {

using core::Json;
using models::Block;
using models::Network;

const std::filesystem::path kFamilies =
    std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

// Largest difference between the model's logits and the golden values, when `change` was done to
// it.
double difference(const char* family, const std::function<void(Network&)>& change) {
  const Json golden = io::load_json_file(kFamilies / family / "golden.json");
  const auto ids = golden["ids"].get<std::vector<std::int32_t>>();
  auto model = models::open_model(kFamilies / family);
  change(model->network);
  RunnerOptions options;
  options.cpu.threads = 1;
  options.kv_types = ops::KvType::kF32;
  const auto runner = make_runner(std::move(model), options);
  double worst = 0;
  runner->score(ids, [&](std::int64_t first, const LogitsView& logits) {
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      const auto expected =
          golden["logits"][static_cast<std::size_t>(first + i)].get<std::vector<float>>();
      for (std::size_t j = 0; j < expected.size(); ++j) {
        worst = std::max(worst, std::fabs(static_cast<double>(logits.row(i)[j] - expected[j])));
      }
    }
  });
  return worst;
}

struct Feature {
  const char* name;
  const char* family;
  std::function<void(Network&)> without;
};
std::ostream& operator<<(std::ostream& out, const Feature& feature) {
  return out << feature.name;
}

// For every block.
std::function<void(Network&)> blocks(const std::function<void(Block&)>& change) {
  return [change](Network& network) {
    std::for_each(network.decoder.blocks.begin(), network.decoder.blocks.end(), change);
  };
}

void as_stored(ops::Norm& norm) {
  for (float& value : norm.weight) {
    value -= norm.stored_less;
  }
}

void without_window(Block& block) {
  block.attention.spec.mask.window = 0;
}

void use_long(Network& network) {
  models::use_context(network, network.config.max_positions + 1);
}

// More of each head than partial_rotary_factor says.
void turn_more(Block& block) {
  auto& frequency = block.attention.spec.inverse_frequency;
  frequency.resize(static_cast<std::size_t>(block.attention.spec.head_dim / 2), 0.1f);
}

const Feature kFeatures[] = {
    {"ScoreCap", "gemma2", blocks([](Block& b) { b.attention.spec.softcap = 0; })},
    {"LogitCap", "gemma2", [](Network& n) { n.config.logit_softcap = 0; }},
    {"ScoreScale", "gemma2", blocks([](Block& b) { b.attention.spec.scale = 0; })},
    {"Window", "gemma2", blocks(without_window)},
    {"AttentionOutNorm", "gemma2", blocks([](Block& b) { b.attention_out_norm.reset(); })},
    {"MlpOutNorm", "gemma2", blocks([](Block& b) { b.mlp_out_norm.reset(); })},
    {"AttentionNormPlusOne", "gemma2", blocks([](Block& b) { as_stored(b.attention_norm); })},
    {"AttentionOutNormPlusOne", "gemma2",
     blocks([](Block& b) { as_stored(*b.attention_out_norm); })},
    {"MlpNormPlusOne", "gemma2", blocks([](Block& b) { as_stored(b.mlp_norm); })},
    {"MlpOutNormPlusOne", "gemma2", blocks([](Block& b) { as_stored(*b.mlp_out_norm); })},
    {"FinalNormPlusOne", "gemma", [](Network& n) { as_stored(*n.decoder.final_norm); }},
    {"EmbeddingScale", "gemma", [](Network& n) { n.embeddings.scale = 1; }},
    {"EmbeddingScaleBehindNorms", "gemma3", [](Network& n) { n.embeddings.scale = 1; }},
    {"TanhOfGelu", "gemma", [](Network& n) { n.config.activation = ops::MlpActivation::kGelu; }},
    {"LocalRotation", "gemma3-text",
     [](Network& n) {
       for (Block& block : n.decoder.blocks) {
         block.attention.spec.inverse_frequency = n.config.inverse_frequency;
       }
     }},
    {"GlobalRotation", "gemma3-text",
     [](Network& n) {
       n.decoder.blocks[2].attention.spec.inverse_frequency = n.config.local_inverse_frequency;
     }},
    {"LocalWindow", "gemma3-text", blocks(without_window)},
    {"QueryNormPlusOne", "gemma3-text", blocks([](Block& b) {
       for (float& value : b.attention.spec.q_norm) {
         value -= 1.0f;
       }
     })},
    {"KeyNormPlusOne", "gemma3-text", blocks([](Block& b) {
       for (float& value : b.attention.spec.k_norm) {
         value -= 1.0f;
       }
     })},
    {"ScaleInQueryNorm", "gemma3-text", blocks([](Block& b) {
       for (float& value : b.attention.spec.q_norm) {
         value *= std::sqrt(20.0f / 16.0f);
       }
     })},
    {"PhiWindow", "phi3", blocks(without_window)},
    {"LongFactors", "phi3-long-rope", [](Network&) {}},
    {"LongRopeFactor", "phi3-long-rope",
     [](Network& n) {
       use_long(n);
       blocks([](Block& b) { b.attention.spec.rope_factor = 1; })(n);
     }},
    {"ShortFactors", "phi4-short-rope", use_long},
    {"PartialRotation", "phi4-short-rope", blocks(turn_more)},
    {"NormalizedShares", "qwen3-moe", [](Network& n) { n.config.routing.renormalize = false; }},
    {"PlainShares", "qwen3-moe-shares", [](Network& n) { n.config.routing.renormalize = true; }},
    {"TwoExperts", "qwen3-moe", [](Network& n) { n.config.routing.top = 1; }},
};

class Features : public testing::TestWithParam<Feature> {};

TEST_P(Features, AreSeen) {
  EXPECT_GT(difference(GetParam().family, GetParam().without), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(All, Features, testing::ValuesIn(kFeatures),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace nibble::engine
