#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "core/byte_size.h"
#include "eval/throughput.h"

namespace nibble::cli {
namespace {

class Bench final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    app.add_option("--pp", options_.prefill_tokens, "Prompt tokens (0: no prefill row)")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--tg", options_.decode_tokens, "Tokens to generate (0: no decode rows)")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--batch", options_.batches, "Sequences that decode together")
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--depth", options_.depth, "Tokens already in the context when decoding starts")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--repeats", options_.repeats, "Repeats of each row; the median counts")
        ->capture_default_str();
    lora_.add(app);
    device_.add(app);
    device_.add_packed(app);
  }

  void run() override {
    TerminalProgress progress(common_.quiet);
    const engine::RunnerOptions runner_options = device_.runner(model_);
    const auto model = lora_.open(model_);
    const std::int64_t most = model->network.config.max_positions;
    options_.prefill_tokens = std::min(options_.prefill_tokens, most);
    options_.decode_tokens = std::min(options_.decode_tokens, most - options_.depth - 1);
    const auto runner = engine::make_runner(model, runner_options);
    const engine::DeviceLimits limits = runner->measure_limits();
    const auto rows = eval::measure_throughput(*runner, model->network, options_, limits, progress);
    common_.json ? print_json(rows, limits, runner->pool().size()) : print(rows, limits);
    say_other_work(rows, progress);
  }

 private:
  static std::string_view name_of(eval::Phase phase) {
    return phase == eval::Phase::kPrefill ? "prefill" : "decode";
  }

  static std::string_view name_of(eval::Limit limit) {
    return limit == eval::Limit::kMemory ? "memory" : "arithmetic";
  }

  static void print(const std::vector<eval::ThroughputRow>& rows,
                    const engine::DeviceLimits& limits) {
    print_result("{}: reads {:.1f} GB/s, {:.0f} G 8-bit multiply-adds/s\n", limits.name,
                 limits.read_bytes_per_second / 1e9, limits.multiply_adds_per_second / 1e9);
    print_result("{:<8} {:>5} {:>7} {:>12} {:>12} {:>14} {:>7}  {}\n", "phase", "batch", "tokens",
                 "tokens/s", "bytes/token", "limit tokens/s", "share", "limited by");
    bool cached = false;
    for (const eval::ThroughputRow& row : rows) {
      print_result("{:<8} {:>5} {:>7} {:>12.2f} {:>12} {:>14.1f} {:>6.1f}%  {}{}\n",
                   name_of(row.phase), row.batch, row.tokens, row.tokens_per_second.median,
                   row.bytes_per_token, row.limit_tokens_per_second, 100 * row.share_of_limit,
                   name_of(row.limited_by), row.fits_cache ? " *" : "");
      cached = cached || row.fits_cache;
    }
    if (cached) {
      print_result(
          "* what a step reads fits the cache ({}), or half of it does: the memory's limit "
          "does not apply\n",
          core::format_byte_size(limits.cache_bytes));
    }
  }

  // Where other work ran beside a row, the speeds are those of a part of the machine.
  static void say_other_work(const std::vector<eval::ThroughputRow>& rows,
                             core::ProgressSink& progress) {
    core::OtherWork most;
    for (const eval::ThroughputRow& row : rows) {
      most = core::larger(most, row.other_work);
    }
    if (core::disturbs(most)) {
      progress.message(fmt::format(
          "nibble: other work ran beside this: it kept {} processors busy, and threads waited {} "
          "of their time for one; speeds are those of a busy machine",
          most.busy_cpus ? fmt::format("{:.1f}", *most.busy_cpus) : "an unknown number of",
          most.waited_share ? fmt::format("{:.0f} %", 100 * *most.waited_share)
                            : "an unknown share"));
    }
  }

  static core::Json json_of(const std::optional<double>& value) {
    return value ? core::Json(*value) : core::Json();
  }

  void print_json(const std::vector<eval::ThroughputRow>& rows, const engine::DeviceLimits& limits,
                  int threads) const {
    core::Json list = core::Json::array();
    for (const eval::ThroughputRow& row : rows) {
      const eval::Speed& speed = row.tokens_per_second;
      list.push_back({{"phase", name_of(row.phase)},
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
                      {"other_busy_cpus", json_of(row.other_work.busy_cpus)},
                      {"waited_share", json_of(row.other_work.waited_share)}});
    }
    const core::Json json = {{"rows", std::move(list)},
                             {"device", device_.device},
                             {"device_name", limits.name},
                             {"threads", threads},
                             {"read_bytes_per_s", limits.read_bytes_per_second},
                             {"multiply_adds_per_s", limits.multiply_adds_per_second},
                             {"cache_bytes", limits.cache_bytes}};
    print_result("{}\n", json.dump());
  }

  DeviceOptions device_;
  LoraOptions lora_;
  eval::ThroughputOptions options_;
};

}  // namespace

std::unique_ptr<Command> bench_command() {
  return std::make_unique<Bench>();
}

}  // namespace nibble::cli
