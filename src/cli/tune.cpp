#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/student_tuning.h"

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
    student_.add(app);
    tune::StudentOptions& options = student_.options();
    app.add_option("--batch", options.batch, "Texts of a step")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--seed", options.seed, "Of the order in which texts are read")
        ->capture_default_str();
    app.add_option("--checkpoint", options.checkpoint,
                   "Steps between two states that --resume goes on from")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--csv", csv_, "File for the loss of each step");
    add_threads(app, options.threads);
    app.add_flag("--resume", resume_, "Go on with an interrupted job for the same output");
  }

  void run() override {
    if (!csv_.empty()) {
      student_.options().csv = csv_;
    }
    const auto model = open_original(model_);
    student_.run(*model, model_, output_, resume_, common_.quiet);
    const auto result = open_model(output_);
    print_result("{}: {}, {:.3f} bits per weight in the blocks\n", output_,
                 core::printable(result->compression.recipe),
                 models::block_bits_per_weight(result->network));
  }

 private:
  StudentTuning student_;
  std::string stage_;
  std::string output_;
  std::string csv_;
  bool resume_ = false;
};

}  // namespace

std::unique_ptr<Command> tune_command() {
  return std::make_unique<Tune>();
}

}  // namespace nibble::cli
