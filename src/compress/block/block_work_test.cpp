#include "compress/block/block_work.h"

#include <cmath>

#include <gtest/gtest.h>

#include "compress/block/compressed_block.h"
#include "compress/block/decoded_block.h"
#include "compress/calibration/pack_forward.h"
#include "compress/pipeline/logits_for_tests.h"
#include "core/random.h"
#include "models/model.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

using ops::cpu::CpuOps;

// The block with every input that can be scaled divided by random factors.
models::Block scaled(const models::Network& network, models::NormPlacement norms,
                     const models::Block& block, core::Random& random, int& scaled_sets) {
  std::map<std::string, formats::Scheme> schemes;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    for (const ops::Linear& part : set->parts) {
      if (!block.router || set != &*block.router) {
        schemes.emplace(part.name, formats::parse_scheme("f32"));
      }
    }
  }
  std::map<int, SetCurvature> none;
  BlockWork work(network.config, norms, block, schemes, none);
  for (SetWork& set : work.sets()) {
    if (set.source.scales == 0) {
      continue;
    }
    std::vector<float> s(static_cast<std::size_t>(set.source.scales));
    for (float& value : s) {
      value = std::exp(random.normal());
    }
    scale_inputs(set, s);
    ++scaled_sets;
  }
  for (SetWork& set : work.sets()) {
    for (LayerWork& layer : set.layers) {
      EXPECT_EQ(layer.weights, layer.target);
      layer.packed =
          formats::dense_weight(core::Tensor::from<float>(layer.weights, {layer.n(), layer.k()}));
    }
  }
  core::ThreadPool pool(1);
  const models::Block between = current_block(work, block, pool);  // as passes see it on the way
  models::Block result = apply_compressed(block, take_compressed(work, block, block));
  EXPECT_EQ(between.attention_norm.weight, result.attention_norm.weight);
  EXPECT_EQ(between.mlp_norm.weight, result.mlp_norm.weight);
  return result;
}

struct Case {
  const char* family;
  int sets_of_a_block;  // whose input can be scaled; the mean, where blocks differ
};

class Scaling : public testing::TestWithParam<Case> {};

// Query heads that share value heads, biases, ReLU, experts, fused q|k|v: the function stays.
TEST_P(Scaling, KeepsWhatTheModelComputes) {
  const auto model = models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) /
                                        "tests/families" / GetParam().family);
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const std::vector<float> before = logits(model->network, ops);
  models::Network network = model->network;
  core::Random random(3);
  int sets = 0;
  for (models::Block& block : network.decoder.blocks) {
    block = scaled(network, network.decoder.norms, block, random, sets);
  }
  EXPECT_EQ(sets, GetParam().sets_of_a_block * static_cast<int>(network.decoder.blocks.size()));
  const std::vector<float> after = logits(network, ops);
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_NEAR(after[i], before[i], 1e-4) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Scaling,
                         testing::Values(Case{"llama", 4}, Case{"llama-bias-tied", 4},
                                         Case{"qwen2", 4}, Case{"qwen3", 4}, Case{"opt", 4},
                                         Case{"opt-post-norm", 2}, Case{"gpt2", 3},
                                         Case{"mixtral", 6}, Case{"qwen3-moe-shares", 5},
                                         Case{"phi3", 4}, Case{"gemma", 4}, Case{"gemma2", 4},
                                         Case{"gemma3", 4}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.family;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Logits of a decoder that has read a text and written another.
std::vector<float> pair_logits(const models::Network& network, CpuOps& ops) {
  const CalibrationPack read{{5, 9, 13, 17, 21, 25, 29}, std::vector<std::int32_t>(7), {7}};
  const CalibrationPack written{{2, 7, 11, 19}, std::vector<std::int32_t>(4), {4}};
  const PackBatch source(read);
  const auto states = models::encode(ops, network, source.batch());
  const PackBatch target(written);
  auto x = models::embed(ops, network, target.batch());
  for (const models::Block& block : network.decoder.blocks) {
    run_pack(ops, network.config, network.decoder.norms, block, written,
             PackSource<CpuOps>{&read, &states}, x);
  }
  const auto result = models::logits(ops, network, x);
  return {result.values().begin(), result.values().end()};
}

class PairScaling : public testing::TestWithParam<Case> {};

TEST_P(PairScaling, KeepsWhatTheModelComputes) {
  const auto model = models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) /
                                        "tests/families" / GetParam().family);
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const std::vector<float> before = pair_logits(model->network, ops);
  models::Network network = model->network;
  core::Random random(3);
  int sets = 0;
  for (models::Stack* stack : {&network.encoder, &network.decoder}) {
    for (models::Block& block : stack->blocks) {
      block = scaled(network, stack->norms, block, random, sets);
    }
  }
  EXPECT_EQ(sets, GetParam().sets_of_a_block);
  const std::vector<float> after = pair_logits(network, ops);
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_NEAR(after[i], before[i], 2e-4) << i;
  }
}

// In all: two blocks of the encoder and three of the decoder, GELU in both. Without norms before
// the layers only attention's outputs are scaled.
INSTANTIATE_TEST_SUITE_P(Families, PairScaling,
                         testing::Values(Case{"bart", 2 * 1 + 3 * 2}, Case{"mbart", 2 * 3 + 3 * 5}),
                         [](const auto& parameter) { return parameter.param.family; });

TEST(InputStatistics, DivideAsIfTheInputsHadBeenDivided) {
  constexpr std::int64_t kInputs = 24;
  core::ThreadPool pool(2);
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  core::Random random(5);
  auto x = ops.matrix(40, kInputs);
  auto divided = ops.matrix(40, kInputs);
  std::vector<float> s(kInputs);
  for (float& value : s) {
    value = std::exp(random.normal());
  }
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    for (std::int64_t j = 0; j < kInputs; ++j) {
      x.row(i)[j] = random.normal();
      divided.row(i)[j] = x.row(i)[j] / s[static_cast<std::size_t>(j)];
    }
  }
  InputStatistics a(StatisticsKind::kHessian, kInputs);
  a.add(x, pool);
  a.divide_inputs(s);
  InputStatistics b(StatisticsKind::kHessian, kInputs);
  b.add(divided, pool);
  for (std::size_t i = 0; i < kInputs; ++i) {
    EXPECT_FLOAT_EQ(a.largest()[i], b.largest()[i]);
    EXPECT_NEAR(a.mean_magnitude()[i], b.mean_magnitude()[i], 1e-5f * b.mean_magnitude()[i]);
    for (std::size_t j = 0; j <= i; ++j) {
      const float expected = b.hessian()[i * kInputs + j];
      EXPECT_NEAR(a.hessian()[i * kInputs + j], expected, 1e-4f * (1 + std::fabs(expected)));
    }
  }
}

}  // namespace
}  // namespace nibble::compress
