// Pruning a whole model: what it does to the outputs on a text that was not calibrated on.

#include <numeric>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::KvCache;

const std::filesystem::path kDemo = std::filesystem::path(NIBBLE_SOURCE_DIR) / "models/demo";

// Final hidden states of all windows.
std::vector<float> outputs(const models::Model& model, const CalibrationWindows& windows) {
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  std::vector<float> result;
  for (const auto& window : windows) {
    std::vector<std::int32_t> positions(window.size());
    std::iota(positions.begin(), positions.end(), 0);
    const ops::SequenceSlice<KvCache> alone{nullptr, 0, 0,
                                            static_cast<std::int64_t>(window.size())};
    const models::Batch<CpuOps> batch{window, positions, {&alone, 1}};
    const auto hidden = models::hidden_states(ops, model.network, batch);
    result.insert(result.end(), hidden.values().begin(), hidden.values().end());
  }
  return result;
}

double squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                               [](double x, double y) { return (x - y) * (x - y); });
}

TEST(PruningTheDemo, SparseGptHarmsLessThanWandaAndRefiningMakesUpForSome) {
  const auto model = models::open_model(kDemo);
  CalibrationOptions evaluation;
  evaluation.texts = {source_text("models/demo/texts/evaluation.txt")};
  evaluation.samples = 4;
  evaluation.seq_len = 128;
  const CalibrationWindows windows = read_calibration(*model, evaluation);
  const std::vector<float> original = outputs(*model, windows);
  const PipelineOptions options = small_job_on_text(8, 128, 2);
  const auto damage = [&](const char* recipe) {
    const auto compressed =
        quantize_in_memory(*model, find_recipe(recipe), options, core::silent_progress()).model;
    return squared_distance(original, outputs(*compressed, windows));
  };
  const double wanda = damage("wanda24");
  EXPECT_LT(damage("sparsegpt24"), 0.9 * wanda);
  EXPECT_LT(damage("wanda24-gptq-w4g128-refine"), 0.9 * wanda) << "4 bits, but made up for";
}

}  // namespace
}  // namespace nibble::compress
