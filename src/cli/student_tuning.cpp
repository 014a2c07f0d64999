#include "cli/student_tuning.h"

#include <fmt/format.h>

#include "cli/option.h"
#include "cli/options.h"
#include "cli/resume_notice.h"
#include "cli/terminal_progress.h"
#include "cli/text_lines.h"
#include "compress/recipe/part_words.h"
#include "core/error.h"
#include "engine/text_batches.h"
#include "tune/qat/loss_words.h"

namespace nibble::cli {
namespace {

constexpr const char* kLoss = "logits=1,hidden=1,attention=1";
constexpr const char* kLossOnGpu = "logits=1,hidden=1";

}  // namespace

void StudentTuning::add(CLI::App& app) {
  add_option(app, "--task", task_,
             "Of encoders: the task of GLUE whose texts are learned: " + eval::glue_task_names());
  add_option(app, "--data", data_,
             "Folder of GLUE, with train.tsv and dev.tsv of the task; or the file to learn "
             "from. Of encoder-decoders: a file of texts and what is to be written for them "
             "(.tsv, .jsonl, .json), or a folder with train.tsv and dev.tsv");
  add_option(app, "--recipe", recipe_, "Types of weights and activations, rounded to nearest")
      ->capture_default_str();
  add_option(app, "--quantize-parts", parts_,
             "As for nibble quantize: parts of each layer with their types; the others stay "
             "float and are trained too");
  const Option prune =
      add_option(app, "--prune", prune_,
                 "Of every M weights in a row only N stay, chosen anew in each step: N:M (2:4, "
                 "1:4), or N:M-pairs (4:8-pairs), where neighbours stay or go together")
          ->check(parsed_by([](const std::string& text) { return tune::parse_pruning(text); }));
  add_option(app, "--prune-by", prune_by_,
             "What decides which stay: their magnitude, or scores that are trained too")
      ->one_of({"magnitude", "movement"})
      ->capture_default_str()
      ->needs(prune);
  add_flag(app, "--prune-rounded", prune_rounded_,
           "Round by the range of all weights, then prune (else: prune, then round)")
      ->needs(prune);
  add_option(app, "--layers", layers_,
             "Of encoders and decoders: layers of the student, which begins as so many of the "
             "model's, every other one where they are half of them (default: all)")
      ->positive();
  add_option(app, "--encoder-layers", stacks_.encoder,
             "The same of the encoder of an encoder-decoder")
      ->positive();
  add_option(app, "--decoder-layers", stacks_.decoder, "And of its decoder")->positive();
  add_option(app, "--kd", loss_,
             fmt::format("Terms of the loss with their weights: labels, logits, hidden (states "
                         "behind each block), attention (normalized), scores (attention before "
                         "softmax) (default {}; on a GPU, which has no terms of attention, {})",
                         kLoss, kLossOnGpu));
  add_option(app, "--limit", limit_, "Learn from so many texts only, drawn by the seed")
      ->positive();
  add_option(app, "--warmup", options_.warmup, "Share of the steps in which the rate rises")
      ->in_range(0.0, 1.0)
      ->capture_default_str();
  add_option(app, "--weight-decay", options_.optimizer.weight_decay, "Of weights, by AdamW")
      ->not_negative()
      ->capture_default_str();
  add_max_length(app, max_length_);
}

void StudentTuning::run(const models::Model& model, const std::string& name,
                        const WindowOptions& windows, const std::string& output, bool resume,
                        bool quiet) {
  options_.recipe = recipe();
  if (!prune_.empty()) {
    options_.pruning = tune::parse_pruning(prune_);
    options_.pruning.by_movement = prune_by_ == "movement";
    options_.pruning.after_rounding = prune_rounded_;
  }
  options_.loss =
      tune::parse_loss_weights(loss_.value_or(options_.place.on_gpu() ? kLossOnGpu : kLoss));
  options_.layers = layers(model, name);
  const TuningTexts texts = this->texts(model, name, windows);
  TerminalProgress progress(quiet);
  note_truncated(texts.truncated, texts.texts.size(), texts.most_tokens, quiet);
  const ResumeNotice notice;
  tune::train_student(model, texts.texts, options_, output, resume, texts.judge, progress);
}

tune::LayerCounts StudentTuning::layers(const models::Model& model, const std::string& name) const {
  const bool is_pair = model.network.has_encoder() && model.network.has_decoder();
  core::require(is_pair || !stacks_.any(), core::ErrorKind::kUsage,
                "{} is no encoder-decoder, which --encoder-layers and --decoder-layers are for; "
                "leave them out",
                core::printable(name));
  core::require(!is_pair || layers_ == 0, core::ErrorKind::kUsage,
                "{} is an encoder-decoder: give --encoder-layers and --decoder-layers in place of "
                "--layers",
                core::printable(name));
  if (is_pair) {
    return stacks_;
  }
  return model.network.has_encoder() ? tune::LayerCounts{layers_, 0}
                                     : tune::LayerCounts{0, layers_};
}

TuningTexts StudentTuning::texts(const models::Model& model, const std::string& name,
                                 const WindowOptions& windows) const {
  const TextChoice choice = {limit_, max_length_, options_.seed, options_.threads};
  if (!model.network.has_encoder()) {
    core::require(task_.empty() && data_.empty() && limit_ == 0 && max_length_ == 0,
                  core::ErrorKind::kUsage,
                  "{} is a decoder, which learns windows of text: give --calib, --samples and "
                  "--seq-len in place of --task, --data, --limit and --max-length",
                  core::printable(name));
    core::require(windows.any(), core::ErrorKind::kUsage,
                  "--stage qat of a decoder needs --calib, texts to learn from");
    return read_window_texts(model, windows.read(), choice);
  }
  core::require(!windows.any(), core::ErrorKind::kUsage,
                "--calib is for decoders; {} learns the texts of --data", core::printable(name));
  if (model.network.has_encoder() && model.network.has_decoder()) {
    core::require(task_.empty(), core::ErrorKind::kUsage,
                  "--task is for encoders; {} writes texts, and learns the pairs of --data",
                  core::printable(name));
    core::require(!data_.empty(), core::ErrorKind::kUsage,
                  "--stage qat learns pairs of texts: a file, or a folder, by --data");
    return read_pair_texts(model, data_, choice);
  }
  core::require(engine::is_encoder(model), core::ErrorKind::kUsage,
                "{} has no head that labels texts, which --stage qat trains an encoder with",
                core::printable(name));
  core::require(!task_.empty() && !data_.empty(), core::ErrorKind::kUsage,
                "--stage qat learns texts of a --task, in the folder --data");
  const eval::GlueTask* const task = eval::find_glue_task(task_);
  core::require(task != nullptr, core::ErrorKind::kUsage, "'{}' is no task of GLUE ({})",
                core::printable(task_), core::lazily([] { return eval::glue_task_names(); }));
  return read_task_texts(model, *task, data_, choice);
}

compress::Recipe StudentTuning::recipe() const {
  compress::Recipe recipe = compress::find_recipe(recipe_);
  if (parts_.empty()) {
    return recipe;
  }
  const models::PartSchemes parts = compress::parse_part_schemes(parts_, recipe);
  return compress::with_parts(std::move(recipe), parts);
}

}  // namespace nibble::cli
