#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/decoder_tuning.h"
#include "cli/open_model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/resume_notice.h"
#include "cli/terminal_progress.h"

namespace nibble::cli {
namespace {

class Tune final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    app.add_option("-o,--output", output_, "Folder to write; must not exist")->required();
    app.add_option("--stage", stage_,
                   "What is trained: bqpo (weights and scales, block by block), e2e-oqp (scales, "
                   "through the whole model), or both, one after the other")
        ->check(CLI::IsMember({"bqpo", "e2e-oqp", "both"}))
        ->capture_default_str();
    decoder_.add(app);
    tune::TuningOptions& options = decoder_.options();
    app.add_option("--batch", options.batch, "Windows of a step")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--seed", options.seed, "Of the order of the windows")->capture_default_str();
    app.add_option("--checkpoint", options.checkpoint,
                   "Steps of e2e-oqp between two states that --resume goes on from")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--csv", csv_, "File for the loss of each step");
    add_threads(app, options.threads);
    app.add_flag("--resume", resume_, "Go on with an interrupted job for the same output");
  }

  void run() override {
    if (!csv_.empty()) {
      decoder_.options().csv = csv_;
    }
    const auto model = open_model(model_);
    TerminalProgress progress(common_.quiet);
    {
      const ResumeNotice notice;
      decoder_.run(*model, stage_, output_, resume_, progress);
    }
    const auto result = open_model(output_);
    print_result("{}: {}, {:.3f} bits per weight in the blocks\n", output_,
                 core::printable(result->compression.recipe),
                 models::block_bits_per_weight(result->network));
  }

 private:
  DecoderTuning decoder_;
  std::string stage_ = "both";
  std::string output_;
  std::string csv_;
  bool resume_ = false;
};

}  // namespace

std::unique_ptr<Command> tune_command() {
  return std::make_unique<Tune>();
}

}  // namespace nibble::cli
