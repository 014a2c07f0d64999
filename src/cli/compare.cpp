#include <cstdio>

#include <unistd.h>

#include "cli/commands.h"
#include "cli/damage_report.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/page_file.h"
#include "cli/terminal_progress.h"
#include "cli/terminal_width.h"
#include "cli/text_input.h"
#include "core/json.h"
#include "eval/damage.h"
#include "report/text_table.h"
#include "results/measured.h"

namespace nibble::cli {
namespace {

class Compare final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    add_option(app, "--recipes", recipes_, "Presets or .json files, separated by commas")
        ->required()
        ->delimiter(',');
    add_option(app, "--text", text_,
               "Text to measure perplexity on: a file, a pipe, or - for standard input")
        ->required();
    compress::CalibrationOptions& calibration = options_.pipeline.calibration;
    add_option(app, "--calib", calib_, kCalibrationHelp);
    add_option(app, "--samples", calibration.samples, "Calibration windows")->capture_default_str();
    add_option(app, "--calib-seq-len", calibration.seq_len, "Tokens of a calibration window")
        ->capture_default_str();
    add_option(app, "--memory", memory_, kMemoryHelp);
    add_option(app, "--seed", calibration.seed, "For text that the model writes itself")
        ->capture_default_str();
    add_option(app, "--seq-len", options_.perplexity.seq_len, "Tokens of an evaluation window")
        ->positive();
    add_option(app, "--max-tokens", options_.perplexity.max_tokens,
               "Use only the first tokens of the text")
        ->positive();
    add_option(app, "--pp", options_.throughput.prefill_tokens,
               "Prompt tokens of the speed measurement");
    add_option(app, "--tg", options_.throughput.decode_tokens,
               "Generated tokens of the speed measurement");
    add_option(app, "--layers", layers_, "Also list this many layers with the largest error")
        ->not_negative();
    add_flag(app, "--wide", wide_,
             "Show all columns of the table, not only those that fit the terminal (or 100 "
             "columns where the output is none)");
    add_option(app, "--html", html_, "Also write a page with the table and drawings");
    add_option(app, "--plot", plot_,
               "Also write the drawing of size against perplexity, as an SVG file");
    lora_.add(app);
    device_.add(app);
  }

  void run() override {
    options_.runner = device_.runner();
    options_.pipeline.threads = device_.threads;
    options_.pipeline.memory = memory_bytes(memory_);
    std::vector<compress::Recipe> recipes;
    for (const std::string& name : recipes_) {
      recipes.push_back(compress::find_recipe(name));
    }
    options_.pipeline.calibration.texts = read_calibration_texts(calib_);
    const std::string text = read_text(text_);
    PageFile page(html_);
    PageFile plot(plot_, kDrawing);
    TerminalProgress progress(common_.quiet);
    const auto model = open_original(model_);
    options_.adapter = lora_.adapter();
    options_.adapter_factor = static_cast<float>(lora_.scale);
    const auto tokens = model->tokenizer->encode(text, {});
    fit_to(model->network.config.max_positions);
    const auto rows = eval::measure_damage(model, recipes, tokens, options_, progress);
    common_.json ? print_json(rows) : print_text(rows, progress);
    say_unsteady(rows, progress);
    if (page) {
      const std::string title = "What compression costs: " + model_;
      page.write(damage_page(title, protocol(tokens.size()), rows, layers_));
    }
    if (plot) {
      const report::PlotFile drawn = report::to_file(increase_plot(rows));
      plot.write(drawn.svg);
      for (const std::string& note : drawn.notes) {
        progress.message(fmt::format("nibble: {}: {}", io::shown(plot_), core::printable(note)));
      }
    }
  }

 private:
  void fit_to(std::int64_t most) {
    std::int64_t& seq_len = options_.perplexity.seq_len;
    seq_len = seq_len == 0 ? most : seq_len;
    core::require(seq_len <= most, core::ErrorKind::kUsage,
                  "--seq-len {} is longer than the {} tokens that the model was made for", seq_len,
                  most);
    eval::ThroughputOptions& speed = options_.throughput;
    speed.prefill_tokens = std::min(speed.prefill_tokens, most);
    speed.decode_tokens = std::min(speed.decode_tokens, most - 1);
  }

  // What was measured on what.
  std::string protocol(std::size_t text_tokens) const {
    const compress::CalibrationOptions& calibration = options_.pipeline.calibration;
    const std::int64_t most = options_.perplexity.max_tokens;
    return fmt::format(
        "Text {} ({} tokens{}) in windows of {}; calibration on {}, at most {} windows of {}; "
        "activations {}{}.",
        text_, text_tokens, most > 0 ? fmt::format(", at most {} used", most) : "",
        options_.perplexity.seq_len,
        calibration.texts.empty() ? "text of the model itself" : "given texts", calibration.samples,
        calibration.seq_len, device_.activations,
        lora_.folder.empty()
            ? ""
            : fmt::format("; adapter {} beside all models, times {}", lora_.folder, lora_.scale));
  }

  void print_text(const std::vector<eval::DamageRow>& rows, core::ProgressSink& progress) const {
    const std::size_t width = terminal_columns(STDOUT_FILENO).value_or(kPageColumns);
    const report::FittedTable fitted =
        wide_ ? report::FittedTable{damage_table(rows), {}} : damage_table(rows, width);
    write_result(report::to_text(fitted.table));
    if (!fitted.left_out.empty()) {
      progress.message(fmt::format("nibble: columns that do not fit: {}; --wide shows all",
                                   fmt::join(fitted.left_out, ", ")));
    }
    if (layers_ > 0) {
      print_result("\n{}", report::to_text(worst_layers_table(rows, layers_)));
    }
  }

  // Says which speeds are left out, and why.
  void say_unsteady(const std::vector<eval::DamageRow>& rows, core::ProgressSink& progress) const {
    std::vector<std::string> names;
    for (const eval::DamageRow& row : rows) {
      const bool prefill = row.prefill || options_.throughput.prefill_tokens == 0;
      const bool decode = row.decode || options_.throughput.decode_tokens == 0;
      if (!prefill || !decode) {
        names.push_back(core::printable(row.recipe));
      }
    }
    if (!names.empty()) {
      progress.message(fmt::format(
          "nibble: speeds are left out where repeats differ by more than {:.0f} % or waited for a "
          "processor more than {:.0f} % of the time: the model is too small, or the machine too "
          "busy ({})",
          100 * eval::kMostSpread, 100 * eval::kMostWaited, fmt::join(names, ", ")));
    }
  }

  void print_json(const std::vector<eval::DamageRow>& rows) const {
    core::Json list = core::Json::array();
    for (const eval::DamageRow& row : rows) {
      list.push_back(results::damage_json(row, layers_));
    }
    const core::Json json = {{"model", model_}, {"text", text_}, {"rows", std::move(list)}};
    print_result("{}\n", json.dump(-1, ' ', false, core::Json::error_handler_t::replace));
  }

  DeviceOptions device_ = DeviceOptions::exact();
  LoraOptions lora_;
  std::vector<std::string> recipes_;
  std::vector<std::string> calib_;
  std::string text_;
  std::string html_;
  std::string plot_;
  std::string memory_;
  bool wide_ = false;
  std::size_t layers_ = 0;
  eval::DamageOptions options_;
};

}  // namespace

std::unique_ptr<Command> compare_command() {
  return std::make_unique<Compare>();
}

}  // namespace nibble::cli
