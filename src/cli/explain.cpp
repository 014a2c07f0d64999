#include "engine/explain.h"

#include <algorithm>

#include "cli/commands.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/strategy_options.h"
#include "cli/terminal_progress.h"
#include "core/json.h"
#include "models/model.h"

namespace nibble::cli {
namespace {

class Explain final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    add_option(app, "--layer", options_.layer, "Only the layer of this name");
    add_option(app, "--tokens", options_.tokens, "Numbers of tokens in a step")
        ->delimiter(',')
        ->capture_default_str();
    add_flag(app, "--measure", options_.measure,
             "On a CPU: time the kernels that are taken, and keep that in ~/.cache/nibble");
    strategy_.add(app);
    device_.add_kernels(app);
  }

  void run() override {
    TerminalProgress progress(common_.quiet);
    const engine::RunnerOptions runner = device_.runner();
    options_.folder = cache_folder();
    const auto model = strategy_.open(model_, {}, runner, common_.quiet);
    const auto explanation = engine::explain_kernels(model->network, runner, options_, progress);
    if (!explanation.ignored.empty() && !common_.quiet) {
      print_note("nibble: measured times are not used: {}\n", explanation.ignored);
    }
    if (common_.json) {
      print_json(explanation, model->compression);
      return;
    }
    if (const auto& tuned = model->compression.tuned) {
      print_result("{}; {}\n", core::printable(model->compression.recipe), tuned_words(*tuned));
    }
    print(explanation);
  }

 private:
  static std::string words_of(const engine::ExplainedEpilogue& epilogue) {
    const std::string_view work =
        epilogue.work == "gate" ? "joins gate and up" : "adds to the residual stream";
    return epilogue.apart.empty()
               ? fmt::format("The kernel {}", work)
               : fmt::format("An operator behind it {}: {}", work, epilogue.apart);
  }

  static std::string words_of(const std::optional<engine::KernelTime>& time) {
    if (!time) {
      return "not measured";
    }
    return fmt::format("{:.2f} us, {:.1f} % of the limit ({}){}{}", time->microseconds,
                       100 * time->share_of_limit(),
                       time->limited_by_memory ? "memory" : "arithmetic",
                       time->date.empty() ? "" : ", ", core::printable(time->date));
  }

  // Kernels that were not taken, those of one reason together, and what becomes of the product.
  static std::string reasons_of(const engine::ExplainedRun& run) {
    std::vector<std::pair<std::string, std::string>> names_by_reason;
    for (const engine::PassedKernel& each : run.passed) {
      const auto at = std::find_if(names_by_reason.begin(), names_by_reason.end(),
                                   [&](const auto& known) { return known.first == each.reason; });
      if (at == names_by_reason.end()) {
        names_by_reason.emplace_back(each.reason, each.kernel);
      } else {
        at->second += ", " + each.kernel;
      }
    }
    std::string text =
        run.epilogue.work.empty() ? "" : fmt::format("    {}\n", words_of(run.epilogue));
    for (const auto& [reason, names] : names_by_reason) {
      text += fmt::format("    not {}: {}\n", names, reason);
    }
    return text;
  }

  static void print(const engine::Explanation& explanation) {
    print_result("{}\n", core::printable(explanation.device));
    for (const engine::ExplainedLayer& layer : explanation.layers) {
      std::string text;
      std::string reasons;  // of the lines above
      for (const engine::ExplainedRun& run : layer.runs) {
        const std::string of_run = reasons_of(run);
        text += of_run == reasons ? "" : reasons;
        reasons = of_run;
        text +=
            fmt::format("  {} {}: {} ({}), {}\n", run.tokens, run.tokens == 1 ? "token" : "tokens",
                        run.kernel, run.schedule, words_of(run.time));
      }
      print_result("\n{}: {}, {} x {}\n{}{}", core::printable(layer.name), layer.scheme, layer.n,
                   layer.k, text, reasons);
    }
  }

  void print_json(const engine::Explanation& explanation,
                  const models::CompressionInfo& compression) const {
    core::Json json = engine::to_json(explanation);
    json["model"] = model_;
    json["tuned"] = tuned_json(compression);
    print_result("{}\n", json.dump());
  }

  DeviceOptions device_;
  StrategyOptions strategy_;
  engine::ExplainOptions options_;
};

}  // namespace

std::unique_ptr<Command> explain_command() {
  return std::make_unique<Explain>();
}

}  // namespace nibble::cli
