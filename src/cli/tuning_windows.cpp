#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cli/tuning_texts.h"
#include "engine/runner.h"
#include "eval/perplexity.h"
#include "tune/window_batches.h"

namespace nibble::cli {
namespace {

// The perplexity of windows.
tune::JudgeStudent judge_by(compress::CalibrationWindows windows, const TextChoice& choice) {
  return [windows = std::move(windows), choice](const std::shared_ptr<const models::Model>& model) {
    std::vector<std::int32_t> tokens;
    for (const auto& window : windows) {
      tokens.insert(tokens.end(), window.begin(), window.end());
    }
    const auto runner = engine::make_runner(model, choice.runner());
    const auto result = eval::measure_perplexity(*runner, tokens, {std::ssize(windows.front()), 0},
                                                 core::silent_progress());
    return fmt::format("perplexity {:.3f} of {} windows that are not learned", result.perplexity,
                       windows.size());
  };
}

}  // namespace

TuningTexts read_window_texts(const models::Model& model,
                              const compress::CalibrationOptions& windows,
                              const TextChoice& choice) {
  compress::CalibrationWindows all = compress::read_calibration(model, windows);
  const auto learned = tune::WindowBatches(all, 1).learned();
  TuningTexts result;
  for (auto window = all.begin(); window != all.begin() + learned; ++window) {
    result.texts.push_back(
        {{window->front()}, {}, {}, std::vector<std::int32_t>(window->begin() + 1, window->end())});
  }
  result.judge = judge_by({all.begin() + learned, all.end()}, choice);
  return result;
}

}  // namespace nibble::cli
