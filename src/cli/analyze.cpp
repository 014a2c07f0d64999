#include <unistd.h>

#include "cli/analysis_report.h"
#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/page_file.h"
#include "cli/terminal_progress.h"
#include "cli/terminal_width.h"
#include "cli/text_input.h"
#include "cli/text_lines.h"
#include "core/json.h"
#include "engine/tile_file.h"
#include "eval/analysis/analysis_texts.h"

namespace nibble::cli {
namespace {

class Analyze final : public ModelCommand {
 public:
  Analyze() { device_.activations = "float"; }

  void add_model_options(CLI::App& app) override {
    add_option(app, "quantized", quantized_, "The same model, quantized, to be seen beside it");
    opens_model(quantized_);
    add_option(app, "--text", text_,
               "Text (UTF-8): a file, a pipe, or - for standard input. For encoders a text, or "
               "two divided by a tab, a line; for encoder-decoders a source, a tab, and its "
               "target a line")
        ->required();
    add_option(app, "--seq-len", options_.seq_len,
               "Tokens of a window, or the most of a line (default: what the model was made "
               "for)")
        ->positive();
    add_option(app, "--max-tokens", options_.max_tokens, "Use only the first tokens of the text")
        ->positive();
    add_option(app, "--html", html_, "Write a page instead");
    add_flag(app, "--wide", wide_, "Print all columns, however wide the terminal is");
    device_.add_kernels(app);
  }

  void run() override {
    const engine::RunnerOptions runner_options = device_.runner();
    core::require(!runner_options.place.on_gpu(), core::ErrorKind::kUsage,
                  "nibble analyze reads the inside of a model on a CPU only; use --device cpu");
    PageFile page(html_);
    TerminalProgress progress(common_.quiet);
    const eval::AnalysisSide model = side(model_, runner_options);
    const eval::AnalysisSide quantized =
        quantized_.empty() ? eval::AnalysisSide() : side(quantized_, runner_options);
    AnalysisView view{model_, quantized_, recipe_of(quantized), text_, {}};
    view.analysis = eval::analyze(model, quantized, read_texts(*model.model), progress);
    if (page) {
      page.write(analysis_page(view));
    } else if (common_.json) {
      print_result("{}\n",
                   analysis_json(view).dump(-1, ' ', false, core::Json::error_handler_t::replace));
    } else {
      const std::size_t width = terminal_columns(STDOUT_FILENO).value_or(kPageColumns);
      write_result(analysis_text(view, wide_ ? 0 : width));
    }
  }

 private:
  static eval::AnalysisSide side(const std::string& folder, const engine::RunnerOptions& options) {
    return {open_model(folder), engine::with_own_tiles(options, folder)};
  }

  static std::string recipe_of(const eval::AnalysisSide& side) {
    return side.model == nullptr || side.model->compression.recipe.empty()
               ? "none"
               : core::printable(side.model->compression.recipe).str();
  }

  std::vector<eval::AnalysisText> read_texts(const models::Model& model) const {
    if (model.network.has_encoder()) {
      const TextLines lines = TextLines::read(text_);
      return eval::lines_of(
          model, lines.texts(), [&](std::size_t i) { return lines.where(i); }, options_);
    }
    return eval::windows_of(model, model.tokenizer->encode(read_text(text_), {}), options_);
  }

  DeviceOptions device_;
  std::string quantized_;
  std::string text_;
  std::string html_;
  bool wide_ = false;
  eval::AnalysisTextOptions options_;
};

}  // namespace

std::unique_ptr<Command> analyze_command() {
  return std::make_unique<Analyze>();
}

}  // namespace nibble::cli
