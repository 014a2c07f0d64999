#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/decoder_tuning.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/page_file.h"
#include "cli/resume_notice.h"
#include "cli/student_tuning.h"
#include "cli/terminal_progress.h"
#include "cli/training_page.h"
#include "core/error.h"
#include "device/place.h"
#include "ops/gradient/product_precision.h"

namespace nibble::cli {
namespace {

constexpr const char* kStudent = "qat";

class Tune final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    const tune::TuningOptions& decoder = decoder_.options();
    const tune::StudentOptions& student = student_.options();
    add_option(app, "-o,--output", output_, "Folder to write; must not exist")->required();
    add_option(app, "--stage", stage_,
               "What is trained: bqpo (weights and scales of a compressed decoder, block by "
               "block), e2e-oqp (scales, and with --e2e-code-lr codes, through the whole "
               "model), both, one after the other; "
               "or qat (a float model, while it runs with rounded weights and activations)")
        ->one_of({"bqpo", "e2e-oqp", "both", kStudent})
        ->capture_default_str();
    windows_.add(app);
    keep_to({"bqpo", "e2e-oqp", "both"}, added(app, decoder_));
    keep_to({kStudent}, added(app, student_));
    keep_to({"e2e-oqp", "both"}, {option_of(app, "--e2e-epochs"), option_of(app, "--e2e-lr"),
                                  option_of(app, "--e2e-code-lr"), option_of(app, "--loss")});
    keep_to({"bqpo", "both"}, {option_of(app, "--scale-lr"), option_of(app, "--patience")});
    const Option epochs =
        add_option(app, "--epochs", epochs_,
                   fmt::format("Times that texts are read: by bqpo for each block, at most "
                               "(default {}); by qat ({})",
                               decoder.blocks.epochs, student.epochs))
            ->positive();
    const Option rate =
        add_option(app, "--lr", learning_rate_,
                   fmt::format("Learning rate: of weights in bqpo (default {}); of qat, behind its "
                               "warm-up ({})",
                               decoder.blocks.learning_rate, student.learning_rate))
            ->positive();
    add_option(app, "--batch", batch_,
               fmt::format("Windows that are read at a time (default {}); of encoders and "
                           "encoder-decoders texts ({})",
                           decoder.batch, student.batch))
        ->in_range(1, 1 << 30);
    add_option(app, "--accumulate", accumulate_,
               "Batches of a step: it is that of one batch of all their windows or texts, in "
               "the memory of a small one")
        ->in_range(1, 1 << 20)
        ->capture_default_str();
    add_option(app, "--device", device_,
               "Where to train decoders, in all stages: cpu, cuda (an NVIDIA GPU), or cuda:1 (the "
               "second one)")
        ->check(parsed_by(device::parse_place))
        ->capture_default_str();
    add_option(app, "--precision", precision_,
               "What products of matrices take in on a GPU: bf16 (the default), tf32 or float32; "
               "their sums and all else are float32")
        ->check(parsed_by(ops::gradient::parse_precision));
    add_option(app, "--seed", seed_, "Of the order of windows and texts")->capture_default_str();
    const Option checkpoint =
        add_option(app, "--checkpoint", checkpoint_,
                   fmt::format("Steps between two states that --resume goes on from: of e2e-oqp "
                               "(default {}), of qat ({})",
                               decoder.checkpoint, student.checkpoint))
            ->positive();
    keep_to({"bqpo", "both", kStudent}, {epochs, rate});
    keep_to({"e2e-oqp", "both", kStudent}, {checkpoint});
    const Option csv = add_option(app, "--csv", csv_, "File for the loss of each step");
    add_option(app, "--html", html_,
               "Also write a page with the loss of --csv, drawn over the steps")
        ->needs(csv);
    add_threads(app, threads_);
    add_flag(app, "--resume", resume_, "Go on with an interrupted job for the same output");
  }

  void run() override {
    const bool is_student = stage_ == kStudent;
    refuse_unused();
    PageFile page(html_);
    is_student ? train_student() : tune_decoder();
    const auto result = open_model(output_);
    if (page) {
      page.write(training_page(fmt::format("Training of {}", result->compression.recipe),
                               tune::read_loss_curve(csv_)));
    }
    print_result("{}: {}, {:.3f} bits per weight in the blocks\n", output_,
                 core::printable(result->compression.recipe),
                 models::block_bits_per_weight(result->network));
  }

 private:
  // The options that `tuning` adds.
  template <typename Tuning>
  static std::vector<Option> added(CLI::App& app, Tuning& tuning) {
    const auto before = static_cast<std::ptrdiff_t>(options_of(app).size());
    tuning.add(app);
    const auto all = options_of(app);
    return {all.begin() + before, all.end()};
  }

  // The options are for these stages alone.
  void keep_to(std::vector<std::string> stages, std::vector<Option> options) {
    kept_.push_back({std::move(stages), std::move(options)});
  }

  void refuse_unused() const {
    for (const auto& [stages, options] : kept_) {
      if (std::find(stages.begin(), stages.end(), stage_) != stages.end()) {
        continue;
      }
      for (const Option& option : options) {
        core::require(option->count() == 0, core::ErrorKind::kUsage,
                      "{} is not for --stage {}, but for {}; leave it out",
                      core::printable(option->get_name()), core::printable(stage_),
                      fmt::join(stages, ", "));
      }
    }
  }

  template <typename Options>
  void set_shared(Options& options) const {
    options.batch = batch_.value_or(options.batch);
    options.accumulate = accumulate_;
    options.checkpoint = checkpoint_.value_or(options.checkpoint);
    options.seed = seed_;
    options.threads = threads_;
    if (!csv_.empty()) {
      options.csv = csv_;
    }
    options.place = device::parse_place(device_);
    core::require(options.place.on_gpu() || precision_.empty(), core::ErrorKind::kUsage,
                  "--precision is for --device cuda; a CPU computes in float32");
    if (!precision_.empty()) {
      options.precision = ops::gradient::parse_precision(precision_);
    }
  }

  void tune_decoder() {
    tune::TuningOptions& options = decoder_.options();
    set_shared(options);
    options.blocks.epochs = epochs_.value_or(options.blocks.epochs);
    options.blocks.learning_rate = learning_rate_.value_or(options.blocks.learning_rate);
    const auto model = open_model(model_);
    TerminalProgress progress(common_.quiet);
    const ResumeNotice notice;
    decoder_.run(*model, stage_, windows_, output_, resume_, progress);
  }

  void train_student() {
    tune::StudentOptions& options = student_.options();
    const auto model = open_original(model_);
    if (!model->network.has_encoder()) {
      options.batch = decoder_.options().batch;  // of windows
    }
    set_shared(options);
    options.epochs = epochs_.value_or(options.epochs);
    options.learning_rate = learning_rate_.value_or(options.learning_rate);
    student_.run(*model, model_, windows_, output_, resume_, common_.quiet);
  }

  WindowOptions windows_;
  DecoderTuning decoder_;
  StudentTuning student_;
  struct Kept {
    std::vector<std::string> stages;
    std::vector<Option> options;
  };
  std::vector<Kept> kept_;
  std::string stage_ = "both";
  std::string output_;
  std::string csv_;
  std::string html_;
  std::optional<std::int64_t> epochs_;
  std::optional<double> learning_rate_;
  std::optional<std::int64_t> batch_;
  std::int64_t accumulate_ = 1;
  std::optional<std::int64_t> checkpoint_;
  std::string device_ = "cpu";
  std::string precision_;
  std::uint64_t seed_ = 0;
  int threads_ = 0;
  bool resume_ = false;
};

}  // namespace

std::unique_ptr<Command> tune_command() {
  return std::make_unique<Tune>();
}

}  // namespace nibble::cli
