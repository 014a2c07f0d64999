#include "cli/tuning_texts.h"

#include <algorithm>
#include <filesystem>

#include "cli/text_lines.h"
#include "core/error.h"
#include "engine/encoder.h"
#include "engine/text_batches.h"
#include "eval/glue/run_glue.h"
#include "io/file_descriptor.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

fs::path train_file(const std::string& data, const eval::GlueTask& task) {
  if (!fs::is_directory(data)) {
    return data;
  }
  const fs::path in_folder = fs::path(data) / fs::path(task.file).parent_path() / "train.tsv";
  return fs::exists(in_folder) ? in_folder : fs::path(data) / "train.tsv";
}

// The file that a student is judged by, in a folder that holds all of GLUE, or this task alone.
fs::path judged_file(const std::string& data, const eval::GlueTask& task) {
  if (!fs::is_directory(data)) {
    return {};
  }
  const fs::path in_folder = fs::path(data) / task.file;
  const fs::path file =
      fs::exists(in_folder) ? in_folder : fs::path(data) / fs::path(task.file).filename();
  return fs::exists(file) ? file : fs::path();
}

// What an item's answer is among the outputs of a head.
class Answers {
 public:
  Answers(const eval::GlueTask& task, const models::Classifier& head)
      : task_(task), is_number_(task.classes.empty()) {
    core::require(is_number_ == (head.problem == models::Problem::kRegression),
                  core::ErrorKind::kUsage, "the model gives {}, but {} asks for {}",
                  is_number_ ? "classes" : "a number", task.name,
                  is_number_ ? "a number" : "classes");
    if (!is_number_) {
      classes_ = eval::order_classes(task, head.labels).classes;
    }
  }

  tune::Label of(const eval::GlueItem& item) const {
    if (is_number_) {
      return {0, static_cast<float>(item.value)};
    }
    const auto found = std::find(classes_.begin(), classes_.end(), item.gold);
    core::require(found != classes_.end(), core::ErrorKind::kUsage,
                  "none of the model's labels is '{}' of {}",
                  task_.classes[static_cast<std::size_t>(item.gold)], task_.name);
    return {static_cast<std::int32_t>(found - classes_.begin()), 0.0f};
  }

 private:
  const eval::GlueTask& task_;
  bool is_number_;
  std::vector<std::int32_t> classes_;  // of each output
};

std::vector<engine::InputText> texts_of(const std::vector<eval::GlueItem>& items) {
  std::vector<engine::InputText> texts;
  for (const eval::GlueItem& item : items) {
    texts.push_back(
        {item.first, item.second ? std::optional<std::string_view>(*item.second) : std::nullopt});
  }
  return texts;
}

engine::InputOptions inputs_of(const models::Model& model, const engine::Encoder& encoder,
                               std::int64_t max_length) {
  engine::InputOptions inputs = engine::input_options(model, encoder);
  shorten(inputs, max_length);
  return inputs;
}

// The measures of a task.
tune::JudgeStudent judge_by(const eval::GlueTask& task, const fs::path& file,
                            const TextChoice& choice) {
  return [&task, name = file.string(), choice, items = eval::read_glue_items(file, task, 0)](
             const std::shared_ptr<const models::Model>& model) {
    const auto encoder = engine::make_encoder(model, choice.runner());
    const eval::GlueScore score = eval::run_glue(*encoder, *model, task, items,
                                                 inputs_of(*model, *encoder, choice.max_length),
                                                 name, core::silent_progress());
    std::string text = fmt::format("{} of {}", score.items, name);
    for (const auto& [metric, value] : score.metrics) {
      text += fmt::format(", {} {:.4f}", to_string(metric), value);
    }
    return text;
  };
}

}  // namespace

engine::RunnerOptions TextChoice::runner() const {
  engine::RunnerOptions options;
  options.cpu.threads = threads;
  return options;
}

TuningTexts read_task_texts(const models::Model& model, const eval::GlueTask& task,
                            const std::string& data, const TextChoice& choice) {
  const Answers answers(task, engine::classifier_of(model));
  const fs::path file = train_file(data, task);
  core::require(fs::exists(file), core::ErrorKind::kIo,
                "'{}' does not exist; --data names the folder of GLUE or a .tsv file of {}",
                io::shown(file), task.name);
  const auto items = drawn(eval::read_glue_items(file, task, 0), choice);
  const auto encoder =
      engine::make_encoder(std::make_shared<models::Model>(model), choice.runner());
  const engine::InputOptions inputs = inputs_of(model, *encoder, choice.max_length);
  TuningTexts result;
  result.most_tokens = inputs.most_tokens;
  result.truncated = engine::for_each_batch(
      *model.tokenizer, texts_of(items), inputs,
      [&](std::size_t i) { return fmt::format("{}, line {}", io::shown(file), items[i].line); },
      [&](std::size_t first, std::span<const text::ModelInput> made,
          std::span<const engine::EncoderText> texts) {
        for (std::size_t i = 0; i < made.size(); ++i) {
          result.texts.push_back({{texts[i].tokens.begin(), texts[i].tokens.end()},
                                  {texts[i].types.begin(), texts[i].types.end()},
                                  answers.of(items[first + i])});
        }
      });
  if (const fs::path judged = judged_file(data, task); !judged.empty()) {
    result.judge = judge_by(task, judged, choice);
  }
  return result;
}

}  // namespace nibble::cli
