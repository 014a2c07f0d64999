#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "eval/glue/glue_file.h"
#include "models/model.h"
#include "tune/qat/train_student.h"

namespace nibble::cli {

/// Which texts of a task are learned.
struct TextChoice {
  std::int64_t limit = 0;       // so many, drawn by the seed; 0: all
  std::int64_t max_length = 0;  // tokens of a text; 0: what the model takes
  std::uint64_t seed = 0;
};

/// The texts of a task of GLUE that a student learns from, and those that it is judged by.
class TuningTexts {
 public:
  /// `data` is the folder of GLUE, which has train.tsv beside the file that `nibble tasks` reads,
  /// or the file to learn from, without others to be judged by. Throws as eval::read_glue_items;
  /// kUsage where the model's head does not fit the task.
  TuningTexts(const models::Model& model, const eval::GlueTask& task, const std::string& data,
              const TextChoice& choice);

  const std::vector<tune::LabelledText>& all() const { return texts_; }
  std::int64_t truncated() const { return truncated_; }
  std::int64_t most_tokens() const { return most_tokens_; }

  /// The measures of the task of a model as it runs on the CPU; none where there is nothing to be
  /// judged by. Uses this object.
  tune::JudgeStudent judge() const;

 private:
  const eval::GlueTask& task_;
  std::vector<tune::LabelledText> texts_;
  std::int64_t truncated_ = 0;
  std::int64_t most_tokens_ = 0;
  std::int64_t max_length_ = 0;
  std::string judged_file_;
  std::vector<eval::GlueItem> judged_;
};

}  // namespace nibble::cli
