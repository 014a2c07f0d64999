#include "cli/decoder_tuning.h"

#include "cli/open_model.h"
#include "cli/option.h"
#include "tune/tune_model.h"

namespace nibble::cli {

void DecoderTuning::add(CLI::App& app) {
  add_option(app, "--teacher", teacher_, "The float model that MODEL was made from");
  add_option(app, "--e2e-epochs", options_.model.epochs, "Times that e2e-oqp reads the text")
      ->positive()
      ->capture_default_str();
  add_option(app, "--scale-lr", scale_rate_,
             "Learning rate of the logarithms of scales in bqpo: a step's share of a scale")
      ->not_negative()
      ->capture_default_str();
  add_option(app, "--e2e-lr", options_.model.learning_rate, "The same in e2e-oqp")
      ->positive()
      ->capture_default_str();
  add_option(app, "--e2e-code-lr", code_rate_,
             "Learning rate of codes in e2e-oqp, in steps of codes; 0: they stay")
      ->not_negative()
      ->capture_default_str();
  add_option(app, "--zero-lr", zero_rate_,
             "Learning rate of zero points in both, in steps of codes; 0: they stay")
      ->not_negative()
      ->capture_default_str();
  add_option(app, "--loss", loss_,
             "What e2e-oqp learns: labels (the text's next tokens), logits (what the teacher "
             "gives them), or mixed")
      ->one_of({"labels", "logits", "mixed"})
      ->capture_default_str();
  add_option(app, "--patience", options_.patience,
             "Epochs without a gain after which bqpo leaves a block")
      ->positive()
      ->capture_default_str();
}

void DecoderTuning::run(const models::Model& model, const std::string& stage,
                        const WindowOptions& windows, const std::string& output, bool resume,
                        core::ProgressSink& progress) {
  core::require(!teacher_.empty() && windows.any(), core::ErrorKind::kUsage,
                "--stage {} needs --teacher, the float model, and --calib, texts to learn from",
                core::printable(stage));
  options_.blocks.runs = stage != "e2e-oqp";
  options_.model.runs = stage != "bqpo";
  options_.loss = loss_ == "labels"   ? tune::LogitLoss{1.0, 0.0}
                  : loss_ == "logits" ? tune::LogitLoss{0.0, 1.0}
                                      : tune::LogitLoss{0.5, 0.5};
  options_.blocks.scale_rate = scale_rate_ / options_.blocks.learning_rate;
  options_.blocks.zero_rate = zero_rate_ / options_.blocks.learning_rate;
  options_.model.zero_rate = zero_rate_ / options_.model.learning_rate;
  options_.model.code_rate = code_rate_ / options_.model.learning_rate;
  options_.calibration = windows.read();
  const auto teacher = open_original(teacher_);
  tune::tune_model(model, *teacher, output, options_, resume, progress);
}

}  // namespace nibble::cli
