#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/encoder_bench.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/running_options.h"
#include "cli/terminal_progress.h"
#include "core/json.h"
#include "eval/throughput.h"

namespace nibble::cli {
namespace {

class Bench final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    decoding_ = {
        add_option(app, "--pp", options_.prefill_tokens, "Prompt tokens (0: no prefill row)")
            ->not_negative()
            ->capture_default_str(),
        add_option(app, "--tg", options_.decode_tokens, "Tokens to generate (0: no decode rows)")
            ->not_negative()
            ->capture_default_str(),
        add_option(app, "--depth", options_.depth,
                   "Tokens already in the context when decoding starts")
            ->not_negative()
            ->capture_default_str(),
        add_flag(app, "--deterministic", deterministic_,
                 "On a GPU: steps as `serve --deterministic` runs them, a kernel for each layer")};
    add_option(app, "--batch", options_.batches,
               "Sequences that decode together, or texts that an encoder reads together")
        ->delimiter(',')
        ->capture_default_str();
    encoding_.add(app);
    add_option(app, "--repeats", options_.repeats,
               "Repeats of each row; the median counts (an encoder's are more, for half a "
               "second)")
        ->capture_default_str();
    running_.add(app);
  }

  bool divides_work() const override { return true; }

  void run() override {
    Ranks ranks;
    engine::RunnerOptions runner_options = ranks.options(model_, running_);
    runner_options.alike_steps = deterministic_;
    if (ranks.follow(model_, runner_options)) {
      return;
    }
    const auto model = ranks.open(model_, runner_options.place, [&] {
      return running_.open(model_, runner_options, common_.quiet);
    });
    if (!common_.json && model->compression.tuned) {
      print_result("{}; {}\n", core::printable(model->compression.recipe),
                   tuned_words(*model->compression.tuned));
    }
    model->network.has_encoder() ? run_encoder(*model, runner_options)
                                 : run_decoder(model, runner_options, ranks);
  }

 private:
  void run_encoder(const models::Model& opened, const engine::RunnerOptions& runner_options) {
    for (const Option& option : decoding_) {
      core::require(option->count() == 0, core::ErrorKind::kUsage,
                    "{} is for models that continue texts; an encoder takes --batch and --seq",
                    core::printable(option->get_name()));
    }
    const std::vector<eval::EncoderShape> shapes = encoding_.all(options_.batches);
    TerminalProgress progress(common_.quiet);
    const auto model = std::make_shared<models::Model>(opened);
    model->network.pooling = {models::PoolingMode::kFirst, false};  // the least beside the encoder
    const auto encoder = engine::make_encoder(model, runner_options);
    const engine::DeviceLimits limits = encoder->measure_limits();
    const auto rows = eval::measure_encoder_throughput(
        *encoder, model->network, {.shapes = shapes, .repeats = options_.repeats}, limits,
        progress);
    if (common_.json) {
      print_json(encoder_rows_json(rows), *model, limits, encoder->pool().size());
    } else {
      print_limits(limits);
      print_encoder_rows(rows);
    }
    note_other_steps(model->compression, shapes);
    finish(rows, limits, progress);
  }

  void run_decoder(const std::shared_ptr<const models::Model>& model,
                   const engine::RunnerOptions& runner_options, Ranks& ranks) {
    core::require(!encoding_.given(), core::ErrorKind::kUsage,
                  "--seq and --shapes are for encoders; this model takes --pp, --tg and --batch");
    TerminalProgress progress(common_.quiet);
    const std::int64_t most = model->network.config.max_positions;
    options_.prefill_tokens = std::min(options_.prefill_tokens, most);
    options_.decode_tokens = std::min(options_.decode_tokens, most - options_.depth - 1);
    const auto runner = ranks.make_runner(model, runner_options);
    const engine::DeviceLimits limits = runner->measure_limits();
    const auto rows = eval::measure_throughput(*runner, model->network, options_, limits, progress);
    if (common_.json) {
      print_json(json_of(rows), *model, limits, runner->pool().size());
    } else {
      print_limits(limits);
      print_rows(rows);
    }
    note_other_steps(model->compression, steps_of(rows));
    finish(rows, limits, progress);
  }

  void print_json(core::Json rows, const models::Model& model, const engine::DeviceLimits& limits,
                  int threads) const {
    core::Json json = bench_json(std::move(rows), running_.device.device, limits, threads);
    json["tuned"] = tuned_json(model.compression);
    print_result("{}\n", json.dump());
  }

  static std::vector<eval::EncoderShape> steps_of(const std::vector<eval::ThroughputRow>& rows) {
    std::vector<eval::EncoderShape> steps;
    for (const eval::ThroughputRow& row : rows) {
      const bool prefill = row.phase == eval::Phase::kPrefill;
      steps.push_back({row.batch, prefill ? row.tokens : 1});
    }
    return steps;
  }

  // Where no step that is measured is of the size that the model was tuned for.
  void note_other_steps(const models::CompressionInfo& compression,
                        const std::vector<eval::EncoderShape>& steps) const {
    if (compression.tuned && !common_.quiet && !is_step_of(*compression.tuned, steps)) {
      print_note(
          "nibble: warning: the types of the model's parts were tuned for {} texts of {} tokens, "
          "which is not measured here\n",
          compression.tuned->batch, compression.tuned->seq);
    }
  }

  template <typename Rows>
  void finish(const Rows& rows, const engine::DeviceLimits& limits,
              core::ProgressSink& progress) const {
    if (!common_.json && any_fits_cache(rows)) {
      print_cache_note(limits);
    }
    say_other_work(most_other_work(rows), progress);
  }

  static std::string_view name_of_phase(eval::Phase phase) {
    return phase == eval::Phase::kPrefill ? "prefill" : "decode";
  }

  static void print_rows(const std::vector<eval::ThroughputRow>& rows) {
    print_result("{:<8} {:>5} {:>7} {:>12} {:>12} {:>14} {:>7}  {}\n", "phase", "batch", "tokens",
                 "tokens/s", "bytes/token", "limit tokens/s", "share", "limited by");
    for (const eval::ThroughputRow& row : rows) {
      print_result("{:<8} {:>5} {:>7} {:>12.2f} {:>12} {:>14.1f} {:>6.1f}%  {}{}\n",
                   name_of_phase(row.phase), row.batch, row.tokens, row.tokens_per_second.median,
                   row.bytes_per_token, row.limit_tokens_per_second, 100 * row.share_of_limit,
                   name_of(row.limited_by), row.fits_cache ? " *" : "");
    }
  }

  static core::Json json_of(const std::vector<eval::ThroughputRow>& rows) {
    core::Json list = core::Json::array();
    for (const eval::ThroughputRow& row : rows) {
      const eval::Speed& speed = row.tokens_per_second;
      list.push_back({{"phase", name_of_phase(row.phase)},
                      {"batch", row.batch},
                      {"tokens", row.tokens},
                      {"tokens_per_s", speed.median},
                      {"tokens_per_s_quartiles", {speed.low, speed.high}},
                      {"repeats", row.repeats},
                      {"bytes_per_token", row.bytes_per_token},
                      {"limit_tokens_per_s", row.limit_tokens_per_second},
                      {"limited_by", name_of(row.limited_by)},
                      {"fits_cache", row.fits_cache},
                      {"share_of_limit", row.share_of_limit},
                      {"other_busy_cpus", json_or_null(row.other_work.busy_cpus)},
                      {"waited_share", json_or_null(row.other_work.waited_share)}});
    }
    return list;
  }

  RunningOptions running_;
  EncoderBenchOptions encoding_;
  eval::ThroughputOptions options_;
  std::vector<Option> decoding_;
  bool deterministic_ = false;
};

}  // namespace

std::unique_ptr<Command> bench_command() {
  return std::make_unique<Bench>();
}

}  // namespace nibble::cli
