#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/damage_report.h"
#include "cli/options.h"
#include "cli/terminal_progress.h"
#include "eval/damage.h"
#include "io/atomic_file.h"
#include "io/text_file.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMaxTextBytes = std::int64_t{1} << 32;

class Compare final : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "The damage table: what each recipe costs and gives";
  }
  std::string_view examples() const override {
    return "  nibble compare models/demo --recipes f16,w8a8,rtn-w4g128,gptq-w4g128 --calib c.txt "
           "--text t.txt\n"
           "  nibble compare models/demo --recipes nf4g64,mxfp4 --text t.txt --html damage.html";
  }

  void add_options(CLI::App& app) override {
    common_.add(app, true);
    device_.kv_type = "f32";
    app.add_option("model", model_, "Model folder or GGUF file")->required();
    app.add_option("--recipes", recipes_, "Presets or .json files, separated by commas")
        ->required()
        ->delimiter(',');
    app.add_option("--text", text_, "Text to measure perplexity on")->required();
    compress::CalibrationOptions& calibration = options_.pipeline.calibration;
    app.add_option("--calib", calibration.texts,
                   "Calibration texts; without any the model writes its own");
    app.add_option("--samples", calibration.samples, "Calibration windows")->capture_default_str();
    app.add_option("--calib-seq-len", calibration.seq_len, "Tokens of a calibration window")
        ->capture_default_str();
    app.add_option("--memory", memory_, kMemoryHelp);
    app.add_option("--seed", calibration.seed, "For text that the model writes itself")
        ->capture_default_str();
    app.add_option("--seq-len", options_.perplexity.seq_len, "Tokens of an evaluation window")
        ->check(CLI::PositiveNumber);
    app.add_option("--max-tokens", options_.perplexity.max_tokens,
                   "Use only the first tokens of the text")
        ->check(CLI::PositiveNumber);
    app.add_option("--pp", options_.throughput.prefill_tokens,
                   "Prompt tokens of the speed measurement");
    app.add_option("--tg", options_.throughput.decode_tokens,
                   "Generated tokens of the speed measurement");
    app.add_option("--layers", layers_, "Also list this many layers with the largest error")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--html", html_, "Also write a page with the table and drawings");
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
    TerminalProgress progress(common_.quiet);
    const auto model = models::open_model(model_);
    options_.adapter = lora_.adapter();
    options_.adapter_factor = static_cast<float>(lora_.scale);
    const auto tokens = model->tokenizer->encode(io::read_text_file(text_, kMaxTextBytes), {});
    fit_to(model->decoder.config.max_positions);
    const auto rows = eval::measure_damage(model, recipes, tokens, options_, progress);
    common_.json ? print_json(rows) : print_text(rows);
    if (!html_.empty()) {
      const std::string title = "What compression costs: " + model_;
      io::write_file_atomically(html_, damage_page(title, protocol(tokens.size()), rows, layers_));
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

  void print_text(const std::vector<eval::DamageRow>& rows) const {
    fmt::print("{}", report::to_text(damage_table(rows)));
    if (layers_ > 0) {
      fmt::print("\n{}", report::to_text(worst_layers_table(rows, layers_)));
    }
  }

  void print_json(const std::vector<eval::DamageRow>& rows) const {
    core::Json list = core::Json::array();
    for (const eval::DamageRow& row : rows) {
      list.push_back(damage_json(row, layers_));
    }
    const core::Json json = {{"model", model_}, {"text", text_}, {"rows", std::move(list)}};
    fmt::print("{}\n", json.dump(-1, ' ', false, core::Json::error_handler_t::replace));
  }

  CommonOptions common_;
  DeviceOptions device_;
  LoraOptions lora_;
  std::string model_;
  std::vector<std::string> recipes_;
  std::string text_;
  std::string html_;
  std::string memory_;
  std::size_t layers_ = 0;
  eval::DamageOptions options_;
};

}  // namespace

std::unique_ptr<Command> compare_command() {
  return std::make_unique<Compare>();
}

}  // namespace nibble::cli
