#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/resume_notice.h"
#include "cli/terminal_progress.h"
#include "cli/text_lines.h"
#include "cli/tuning_texts.h"
#include "compress/recipe/part_words.h"
#include "engine/encoder.h"
#include "engine/text_batches.h"
#include "results/measured.h"
#include "tune/qat/loss_words.h"
#include "tune/qat/train_student.h"

namespace nibble::cli {
namespace {

class Tune final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    app.add_option("-o,--output", output_, "Folder to write; must not exist")->required();
    app.add_option("--stage", stage_,
                   "What is trained: qat (weights, biases and norms of an encoder that runs with "
                   "rounded weights and activations, against the float model)")
        ->check(CLI::IsMember({"qat"}))
        ->required();
    app.add_option("--task", task_,
                   "Task of GLUE whose texts are learned: " + eval::glue_task_names())
        ->required();
    app.add_option("--data", data_,
                   "Folder of GLUE, with train.tsv and dev.tsv of the task; or the file to learn "
                   "from")
        ->required();
    app.add_option("--recipe", recipe_, "Types of weights and activations, rounded to nearest")
        ->capture_default_str();
    app.add_option("--quantize-parts", parts_,
                   "As for nibble quantize: parts of each layer with their types, the others stay "
                   "float and are trained too");
    app.add_flag("--pairs", options_.pairs,
                 "Of every four weights in a row only the two of the largest magnitude stay");
    app.add_option("--kd", loss_,
                   "Terms of the loss with their weights: labels, logits, hidden (states behind "
                   "each block), attention (normalized), scores (attention before softmax)")
        ->capture_default_str();
    app.add_option("--epochs", options_.epochs, "Times that each text is read")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--limit", limit_, "Learn from so many texts only, drawn by the seed")
        ->check(CLI::PositiveNumber);
    app.add_option("--batch", options_.batch, "Texts of a step")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--lr", options_.learning_rate,
                   "Learning rate behind the warm-up; it falls in even steps to 0")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--warmup", options_.warmup, "Share of the steps in which it rises")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    app.add_option("--weight-decay", options_.optimizer.weight_decay, "Of weights, by AdamW")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--seed", options_.seed, "Of the order in which texts are read")
        ->capture_default_str();
    app.add_option("--checkpoint", options_.checkpoint, "Steps between two checkpoints")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--csv", csv_, "Write the loss of each step to a file");
    add_max_length(app, max_length_);
    add_threads(app, options_.threads);
    app.add_flag("--resume", resume_, "Go on with an interrupted job for the same output");
  }

  void run() override {
    options_.recipe = recipe();
    options_.loss = tune::parse_loss_weights(loss_);
    if (!csv_.empty()) {
      options_.csv = csv_;
    }
    const eval::GlueTask* const task = eval::find_glue_task(task_);
    core::require(task != nullptr, core::ErrorKind::kUsage, "'{}' is no task of GLUE ({})",
                  core::printable(task_), core::lazily([] { return eval::glue_task_names(); }));
    const auto model = open_original(model_);
    core::require(engine::is_encoder(*model), core::ErrorKind::kUsage,
                  "{} is no encoder; --stage qat trains encoders with a head that labels texts",
                  core::printable(model_));
    const TuningTexts texts(*model, *task, data_, {limit_, max_length_, options_.seed});
    TerminalProgress progress(common_.quiet);
    note_truncated(texts.truncated(), texts.all().size(), texts.most_tokens(), common_.quiet);
    {
      const ResumeNotice notice;
      tune::train_student(*model, texts.all(), options_, output_, resume_, texts.judge(), progress);
    }
    const auto result = open_model(output_);
    print_result("{}\n", results::quantized_json(model_, *model, output_, *result).dump());
  }

 private:
  compress::Recipe recipe() const {
    compress::Recipe recipe = compress::find_recipe(recipe_);
    if (parts_.empty()) {
      return recipe;
    }
    const models::PartSchemes parts = compress::parse_part_schemes(parts_, recipe);
    return compress::with_parts(std::move(recipe), parts);
  }

  tune::StudentOptions options_;
  std::string stage_;
  std::string output_;
  std::string task_;
  std::string data_;
  std::string recipe_ = "w4a4";
  std::string parts_;
  std::string loss_ = "logits=1,hidden=1,scores=1";
  std::string csv_;
  std::int64_t limit_ = 0;
  std::int64_t max_length_ = 0;
  bool resume_ = false;
};

}  // namespace

std::unique_ptr<Command> tune_command() {
  return std::make_unique<Tune>();
}

}  // namespace nibble::cli
