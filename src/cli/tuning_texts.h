#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compress/calibration/calibration.h"
#include "engine/runner.h"
#include "eval/glue/glue_file.h"
#include "models/model.h"
#include "tune/qat/train_student.h"

namespace nibble::cli {

/// Which texts are learned.
struct TextChoice {
  std::int64_t limit = 0;       // so many, drawn by the seed; 0: all
  std::int64_t max_length = 0;  // tokens of a text; 0: what the model takes
  std::uint64_t seed = 0;
  int threads = 0;  // of the CPU, of the model that is judged

  engine::RunnerOptions runner() const;
};

/// The items that a choice leaves.
template <typename Item>
std::vector<Item> drawn(std::vector<Item> items, const TextChoice& choice) {
  if (choice.limit == 0 || choice.limit >= std::ssize(items)) {
    return items;
  }
  std::vector<Item> chosen;
  const auto order = tune::order_of_epoch(items.size(), choice.seed, -1);
  for (std::int64_t i = 0; i < choice.limit; ++i) {
    chosen.push_back(std::move(items[order[static_cast<std::size_t>(i)]]));
  }
  return chosen;
}

/// What a student learns from, and is judged by.
struct TuningTexts {
  std::vector<tune::LabelledText> texts;
  std::int64_t truncated = 0;  // that were cut
  std::int64_t most_tokens = 0;
  /// The measures of a model as it runs on the CPU; none where there is nothing to be judged by.
  tune::JudgeStudent judge;
};

/// The texts of a task of GLUE. `data` is the folder of GLUE, which has train.tsv beside the file
/// that `nibble tasks` reads, or the file to learn from, without others to be judged by. Throws as
/// eval::read_glue_items; kUsage where the model's head does not fit the task. `task` outlives
/// what is returned.
TuningTexts read_task_texts(const models::Model& model, const eval::GlueTask& task,
                            const std::string& data, const TextChoice& choice);

/// The pairs of a file (eval::read_text_pairs), for an encoder-decoder: it reads the sources and
/// learns to write the first target of each. `data` is the file, or a folder with train.tsv, and
/// with dev.tsv where there are pairs to be judged by. Targets are framed as the tokenizer frames
/// texts, and end with the model's end token. Throws as eval::read_text_pairs; kUsage for a model
/// without an end token.
TuningTexts read_pair_texts(const models::Model& model, const std::string& data,
                            const TextChoice& choice);

/// The windows of a text, for a decoder, which learns the next token of each. The last sixteenth,
/// at least one, are not learned: the perplexity of them judges. Throws as
/// compress::read_calibration() and tune::WindowBatches.
TuningTexts read_window_texts(const models::Model& model,
                              const compress::CalibrationOptions& windows,
                              const TextChoice& choice);

}  // namespace nibble::cli
