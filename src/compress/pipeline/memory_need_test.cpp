#include "compress/pipeline/memory_need.h"

#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/calibration/measure_curvature.h"
#include "models/model.h"

namespace nibble::compress {
namespace {

ops::LinearSet set_of(std::int64_t n, std::int64_t k) {
  ops::LinearSet set;
  set.parts.resize(1);
  set.parts[0].weight.n = n;
  set.parts[0].weight.k = k;
  return set;
}

// A block of the shapes of a Llama of 7 billion parameters.
models::Network seven_billion() {
  models::Network network;
  models::Block block;
  block.attention.qkv = set_of(3 * 4096, 4096);
  block.attention.out = set_of(4096, 4096);
  block.mlp = models::Mlp{set_of(2 * 11008, 4096), set_of(4096, 11008)};
  network.decoder.blocks = {block, block};
  return network;
}

constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kFfn = 11008;
constexpr std::int64_t kWeights = 4 * kHidden * kHidden + 3 * kHidden * kFfn;
constexpr std::int64_t kHessians = 4 * (3 * kHidden * kHidden + kFfn * kFfn);
constexpr std::int64_t kValues = 3 * kHidden + kHidden  // q|k|v and its input
                                 + 2 * kHidden          // out
                                 + 2 * kFfn + kHidden   // gate|up
                                 + kHidden + kFfn;      // down

TEST(MemoryNeed, CountsTheWeightsTwiceAndWhatTheyBecome) {
  const BlockDemand demand;
  EXPECT_EQ(block_memory(seven_billion(), demand), 9 * kWeights);
  models::Network transformed = seven_billion();
  EXPECT_EQ(block_memory(transformed, {StatisticsKind::kNone, false, true, 0}), 13 * kWeights);
}

// At the first set nothing is compressed yet: two float copies, all Hessians, its own factor.
TEST(MemoryNeed, IsLargestAtTheFirstSetOfALlama) {
  const BlockDemand demand{StatisticsKind::kHessian, false, false, 256};
  EXPECT_EQ(block_memory(seven_billion(), demand),
            9 * kWeights + kHessians + 12 * kHidden * kHidden + 4 * 256 * kValues);
}

// Where the last set is much wider than the others, its factor decides.
TEST(MemoryNeed, IsLargestAtAWideLastSet) {
  models::Network network;
  models::Block block;
  block.attention.qkv = set_of(30, 10);
  block.attention.out = set_of(10, 10);
  block.mlp = models::Mlp{set_of(100, 10), set_of(10, 1000)};
  network.decoder.blocks = {block};
  const std::int64_t weights = 300 + 100 + 1000 + 10000;
  EXPECT_EQ(block_memory(network, {StatisticsKind::kHessian, false, false, 0}),
            8 * 10000 + 4 * 1000 * 1000 + 12 * 1000 * 1000 + weights);
}

TEST(MemoryNeed, GrowsWithWhatIsMeasured) {
  const models::Network network = seven_billion();
  const std::int64_t plain = block_memory(network, {StatisticsKind::kHessian, false, false, 256});
  EXPECT_GT(block_memory(network, {StatisticsKind::kCross, false, false, 256}), plain);
  EXPECT_GT(block_memory(network, {StatisticsKind::kCross, true, false, 256}),
            block_memory(network, {StatisticsKind::kHessian, true, false, 256}));
}

TEST(MemoryNeed, CountsTheCurvatureOfAllBlocks) {
  const models::Network network = seven_billion();
  BlockDemand demand{StatisticsKind::kHessian, false, false, 256};
  demand.all_tokens = 1024;
  EXPECT_EQ(curvature_memory(network, demand), 0);
  EXPECT_EQ(curvature_measuring_memory(network, demand), 0);
  const std::int64_t without = block_memory(network, demand);
  demand.needs_curvature = true;
  const std::int64_t outputs = 3 * kHidden + kHidden + 2 * kFfn + kHidden;
  const std::int64_t expected = 2 * (4 * 512 * outputs + 4 * 4 * 1024);
  EXPECT_EQ(curvature_memory(network, demand), expected);
  EXPECT_EQ(block_memory(network, demand), without + expected);
}

// A vocabulary is wider than any layer of a block.
TEST(MemoryNeed, CountsTheOutputLayerWhenItIsRounded) {
  models::Network network = seven_billion();
  constexpr std::int64_t kVocabulary = 128256;
  network.output = set_of(kVocabulary, kHidden);
  BlockDemand demand{StatisticsKind::kHessian, false, false, 256};
  demand.all_tokens = 1024;
  const std::int64_t without = block_memory(network, demand);
  demand.rounds_output = true;
  EXPECT_EQ(block_memory(network, demand),
            9 * kVocabulary * kHidden + 16 * kHidden * kHidden + 8 * 256 * kHidden);
  EXPECT_GT(block_memory(network, demand), without);
  demand.needs_curvature = true;
  const std::int64_t of_output = curvature_memory(network, demand);
  demand.rounds_output = false;
  EXPECT_EQ(of_output - curvature_memory(network, demand),
            4 * (250 * 512 * 512 + 256 * 256) + 4 * 1024);
}

// The curvature as it is measured, and the matrices that were alive at a time while it was.
TEST(MemoryNeed, CoversTheCurvatureThatIsMeasured) {
  const auto folder = std::filesystem::path(NIBBLE_SOURCE_DIR) / "models" / "demo";
  const auto model = models::open_model(folder);
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  std::vector<std::int32_t> window(160);
  std::iota(window.begin(), window.end(), 300);
  BlockDemand demand;
  demand.needs_curvature = true;
  demand.tokens = 160;
  demand.all_tokens = 320;
  const auto curvature = measure_curvature(model->network, decoder_inputs({window, window}), 1, ops,
                                           core::silent_progress());
  std::int64_t bytes = 0;
  for (const auto& [id, set] : curvature) {
    bytes += 4 * std::ssize(set.token_weights);
    for (const OutputCurvature& layer : set.layers) {
      bytes += layer.bytes();
    }
  }
  EXPECT_EQ(curvature_memory(model->network, demand), bytes);
  const std::int64_t beside = curvature_measuring_memory(model->network, demand) - bytes;
  EXPECT_GE(beside, ops.peak_activation_bytes());
  EXPECT_LE(beside, 2 * ops.peak_activation_bytes());
}

}  // namespace
}  // namespace nibble::compress
