#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compress/calibration/calibration_inputs.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "io/temporary_folder_for_tests.h"
#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"
#include "tune/losses.h"
#include "tune/tune_model.h"
#include "tune/window_batches.h"

/// Tuning jobs on the small models of the families.
namespace nibble::tune {

inline TuningOptions small_options() {
  TuningOptions options;
  options.calibration.texts = {compress::source_text("models/demo/texts/calibration.txt")};
  options.calibration.samples = 6;
  options.calibration.seq_len = 16;
  options.batch = 2;
  options.checkpoint = 1;
  options.threads = 2;
  options.blocks.epochs = 3;
  options.blocks.learning_rate = 3e-3;
  options.blocks.scale_rate = 1.0;
  options.model.learning_rate = 1e-2;
  return options;
}

class TuneModel : public testing::Test {
 protected:
  // A folder of a family's model by a recipe.
  std::shared_ptr<models::Model> quantized(const std::string& family, const std::string& recipe) {
    const std::filesystem::path target = folder_ / (family + "-" + recipe);
    compress::quantize_model(*teacher(family), compress::find_recipe(recipe), target,
                             compress::small_job(2, 16, 2), false, core::silent_progress());
    return models::open_model(target);
  }
  static std::shared_ptr<models::Model> teacher(const std::string& family) {
    return models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families" /
                              family);
  }
  std::map<std::string, std::string> tune(const models::Model& model, const std::string& family,
                                          const std::string& name, const TuningOptions& options,
                                          core::ProgressSink& progress = core::silent_progress(),
                                          bool resume = false) {
    tune_model(model, *teacher(family), folder_ / name, options, resume, progress);
    return io::folder_contents(folder_ / name);
  }

  io::TemporaryFolder folder_;
};

// KL from the teacher's predictions on the first windows of the text.
inline double divergence(const models::Model& model, const models::Model& teacher,
                         const TuningOptions& options) {
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const auto windows = compress::read_calibration(model, options.calibration);
  double sum = 0;
  for (const auto& tokens : windows) {
    const compress::CalibrationPack pack{tokens, {}, {std::ssize(tokens)}};
    const compress::PackBatch batch(pack);
    const auto logits_of = [&](const models::Network& network) {
      return models::logits(ops, network, models::hidden_states(ops, network, batch.batch()));
    };
    auto own = logits_of(model.network);
    auto theirs = logits_of(teacher.network);
    sum += logit_loss({0.0, 1.0}, own, theirs, WindowBatches::labels(pack), 1.0, ops.pool());
  }
  return sum;
}

// Of the steps of a run.
inline std::vector<double> losses_in(const std::filesystem::path& csv) {
  std::vector<double> losses;
  std::ifstream file(csv);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::string loss = line;
    for (int i = 0; i < 4; ++i) {
      loss = loss.substr(loss.find(',') + 1);
    }
    losses.push_back(std::stod(loss));
  }
  return losses;
}

/// That two runs had the same losses, but for this share of them.
inline void expect_near_losses(const std::filesystem::path& found_csv,
                               const std::vector<double>& expected, double tolerance,
                               const std::string& what) {
  const auto found = losses_in(found_csv);
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], tolerance * expected[i]) << what << " step " << i;
  }
}

}  // namespace nibble::tune
