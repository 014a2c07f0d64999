#include "compress/calibration/key_centre.h"

#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/calibration/block_runner.h"
#include "models/forward.h"
#include "models/model.h"
#include "ops/cpu/attention/rope.h"

namespace nibble::compress {
namespace {

const std::filesystem::path kFamilies =
    std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

// Key `row` of a token, behind RoPE at a position, from the logical weights.
std::vector<float> key_of(const models::Block& block, std::span<const float> x,
                          std::int64_t position) {
  const ops::AttentionSpec& spec = block.attention.spec;
  std::vector<float> outputs;  // q | k | v
  for (const ops::Linear& part : block.attention.qkv.parts) {
    std::vector<float> weights(x.size());
    for (std::int64_t row = 0; row < part.weight.n; ++row) {
      formats::decode_row(part.weight, row, weights);
      const float bias = part.bias.empty() ? 0.0f : part.bias[static_cast<std::size_t>(row)];
      outputs.push_back(std::inner_product(weights.begin(), weights.end(), x.begin(), bias));
    }
  }
  const auto begin = outputs.begin() + spec.heads * spec.head_dim;
  std::vector<float> key(begin, begin + spec.kv_heads * spec.head_dim);
  ops::cpu::Rotation rotation;
  rotation.set(spec.inverse_frequency, position, spec.rope_factor);
  for (std::int64_t head = 0; head < spec.kv_heads; ++head) {
    ops::cpu::rotate(key.data() + head * spec.head_dim, rotation);
  }
  return key;
}

// The mean of the keys of all tokens at all positions.
TEST(KeyCentre, IsTheMeanKeyOverTokensAndPositions) {
  for (const char* family : {"llama", "llama-bias-tied", "llama-yarn-rope", "gpt2", "opt"}) {
    const auto model = models::open_model(kFamilies / family);
    models::NetworkConfig config = model->network.config;
    config.max_positions = 50;
    const auto k = static_cast<std::size_t>(config.hidden);
    for (const models::Block& block : model->network.decoder.blocks) {
      std::vector<float> x(3 * k);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(i * 37 % 23) / 10.0f - 0.9f;
      }
      const std::vector<float> mean = mean_row(x, 3, config.hidden);
      std::vector<double> expected;
      for (std::int64_t position = 0; position < config.max_positions; ++position) {
        for (std::size_t token = 0; token < 3; ++token) {
          const auto key = key_of(block, std::span(x).subspan(token * k, k), position);
          expected.resize(key.size());
          for (std::size_t i = 0; i < key.size(); ++i) {
            expected[i] += key[i] / 150.0;
          }
        }
      }
      const std::vector<float> centre = key_centre(config, block, mean);
      ASSERT_EQ(centre.size(), expected.size());
      for (std::size_t i = 0; i < centre.size(); ++i) {
        EXPECT_NEAR(centre[i], expected[i], 1e-5) << family << " " << i;
      }
    }
  }
}

// Of the normed inputs of all windows, as long as they have few tokens.
TEST(KeyCentre, InputsAreThoseOfTheFirstWindows) {
  const auto model = models::open_model(kFamilies / "llama");
  const models::Network& network = model->network;
  const ops::Norm& norm = network.decoder.blocks.front().attention_norm;
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  const auto row_of = [&](std::int32_t token) {
    const std::int32_t position = 0;
    const std::vector<std::int32_t> tokens = {token};
    const ops::cpu::Matrix x =
        ops.norm_matrix(models::embed(ops, network, {tokens, {&position, 1}, {}}), norm);
    return std::vector<float>(x.row(0), x.row(0) + x.columns());
  };
  const auto mean_of = [&](const CalibrationWindows& windows) {
    return CpuBlockRunner(network, decoder_inputs(windows), ops, false, std::nullopt)
        .mean_input(&norm);
  };
  const std::vector<float> a = row_of(3);
  const std::vector<float> b = row_of(5);
  const std::vector<float> mean = mean_of({{3, 3}, {5}});
  for (std::size_t i = 0; i < mean.size(); ++i) {
    EXPECT_NEAR(mean[i], (2 * a[i] + b[i]) / 3, 1e-6);
  }
  EXPECT_EQ(mean_of({{3}, std::vector<std::int32_t>(kMeanTokens, 5)}), a);
  EXPECT_EQ(mean_of({std::vector<std::int32_t>(kMeanTokens + 1, 5), {3}}), b);
}

// Where no norm stands before the layers, the residual stream.
TEST(KeyCentre, InputsMayBeTheStreamItself) {
  const auto model = models::open_model(kFamilies / "opt");
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  const CalibrationWindows windows = {{3, 5}};
  const std::vector<std::int32_t> positions = {0, 1};
  const ops::cpu::Matrix x = models::embed(ops, model->network, {windows[0], positions, {}});
  const std::vector<float> mean =
      CpuBlockRunner(model->network, decoder_inputs(windows), ops, false, std::nullopt)
          .mean_input(nullptr);
  for (std::int64_t i = 0; i < x.columns(); ++i) {
    EXPECT_NEAR(mean[static_cast<std::size_t>(i)], (x.row(0)[i] + x.row(1)[i]) / 2, 1e-6);
  }
}

// Nor have soft-capped scores, which are no longer the same less a constant.
TEST(KeyCentre, NormalisedKeysAndCappedScoresHaveNone) {
  for (const char* family : {"qwen3", "gemma2"}) {
    const auto model = models::open_model(kFamilies / family);
    const std::vector<float> mean(static_cast<std::size_t>(model->network.config.hidden), 1.0f);
    EXPECT_TRUE(
        key_centre(model->network.config, model->network.decoder.blocks.front(), mean).empty())
        << family;
  }
}

}  // namespace
}  // namespace nibble::compress
