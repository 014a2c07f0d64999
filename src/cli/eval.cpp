#include <cmath>

#include "cli/commands.h"
#include "cli/damage_report.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/running_options.h"
#include "cli/terminal_progress.h"
#include "cli/text_input.h"
#include "core/json.h"
#include "engine/tile_file.h"
#include "eval/perplexity.h"
#include "results/measured.h"

namespace nibble::cli {
namespace {

class Eval final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    add_option(app, "--text", text_, "Text (UTF-8): a file, a pipe, or - for standard input")
        ->required();
    add_option(app, "--seq-len", options_.seq_len,
               "Tokens of a window (default: what the model was made for)")
        ->positive();
    add_option(app, "--max-tokens", options_.max_tokens, "Use only the first tokens of the text")
        ->positive();
    add_option(app, "--reference", reference_, "Model to compare the predictions with");
    opens_model(reference_);
    add_option(app, "--max-perplexity", max_perplexity_,
               "Exit with 7 when the perplexity is larger")
        ->positive();
    running_.add(app);
  }

  bool divides_work() const override { return true; }

  void run() override {
    Ranks ranks;
    const engine::RunnerOptions runner_options = ranks.options(model_, running_);
    if (ranks.follow(model_, runner_options)) {
      return;
    }
    TerminalProgress progress(common_.quiet);
    const std::string text = read_text(text_);
    const auto model = ranks.open(model_, runner_options.place, [&] {
      return running_.open(model_, runner_options, common_.quiet);
    });
    const auto tokens = model->tokenizer->encode(text, {});
    models::use_context(model->network, options_.seq_len);
    if (options_.seq_len == 0) {
      options_.seq_len = model->network.config.max_positions;
    }
    core::require(options_.seq_len <= model->network.config.max_positions, core::ErrorKind::kUsage,
                  "--seq-len {} is longer than the {} tokens that the model was made for",
                  options_.seq_len, model->network.config.max_positions);
    const auto runner = ranks.make_runner(model, runner_options);
    std::unique_ptr<engine::Runner> reference;
    if (!reference_.empty()) {
      const auto original =
          cli::open_model(reference_, engine::stored_layers_for(runner_options.place));
      models::use_context(original->network, options_.seq_len);
      reference = engine::make_runner(original, engine::with_own_tiles(runner_options, reference_));
    }
    const eval::PerplexityResult result =
        eval::measure_perplexity(*runner, tokens, options_, progress, reference.get());
    print(*model, result);
    core::require(max_perplexity_ == 0 || result.perplexity <= max_perplexity_,
                  core::ErrorKind::kBelowThreshold,
                  "perplexity {:.4f} is larger than the asked {:.4f}", result.perplexity,
                  max_perplexity_);
  }

 private:
  void print(const models::Model& model, const eval::PerplexityResult& result) const {
    if (common_.json) {
      print_result("{}\n", results::evaluation_json(model_, model, result).dump());
      return;
    }
    const double bits = models::block_bits_per_weight(model.network);
    const std::int64_t bytes = models::total_weight_bytes(model.network);
    print_result(
        "perplexity {} over {} predictions of {} ({:.3f} bits per weight, {:.2f} MB, {:.1f} s)\n",
        with_error(result.perplexity, result.perplexity * result.nll.window_standard_error, 4),
        result.predictions, model_, bits, static_cast<double>(bytes) / 1e6, result.seconds);
    if (result.divergence) {
      print_divergence(*result.divergence);
    }
  }

  void print_divergence(const eval::Divergence& divergence) const {
    const double ratio = std::exp(divergence.nll_increase.value);
    const double error = ratio * divergence.nll_increase.window_standard_error;
    print_result(
        "against {}: perplexity {} %, same top token {} %\n", reference_,
        signed_with_error(100 * (ratio - 1), 100 * error, 3),
        with_error(100 * divergence.top1_agreement, 100 * divergence.top1_standard_error, 2));
    print_result("KL divergence {} nats, median {:.6f}, 99.9th percentile {:.6f}\n",
                 with_error(divergence.kl.value, divergence.kl.window_standard_error, 6),
                 divergence.kl_median, divergence.kl_p999);
  }

  RunningOptions running_{.lora = {}, .strategy = {}, .device = DeviceOptions::exact()};
  std::string text_;
  std::string reference_;
  double max_perplexity_ = 0;
  eval::PerplexityOptions options_;
};

}  // namespace

std::unique_ptr<Command> eval_command() {
  return std::make_unique<Eval>();
}

}  // namespace nibble::cli
