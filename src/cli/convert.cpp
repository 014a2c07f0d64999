#include "cli/commands.h"
#include "cli/conversion_report.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "compress/search/searched_rounding.h"
#include "core/json.h"
#include "models/exchange/conversion.h"
#include "models/gguf/gguf_export.h"
#include "models/gguf/gguf_tensor_data.h"

namespace nibble::cli {
namespace {

class Convert final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    add_option(app, "--to", to_,
               "gguf (llama.cpp), gptq, awq, compressed-tensors (vLLM, transformers), mlx "
               "(mlx-lm), or hf (plain float tensors, transformers)")
        ->required()
        ->one_of({"gguf", "gptq", "awq", "compressed-tensors", "hf", "mlx"});
    add_option(app, "-o,--output", output_, "Folder (gguf: file) to write; must not exist")
        ->required();
    add_option(app, "--scheme", scheme_,
               "What layers become, where it is not what comes nearest to them: int4-sym-g128, "
               "f16, ... (gguf: also its types: Q4_K, IQ4_NL, Q5_1, MXFP4, ...)");
    add_threads(app, options_.threads);
  }

  void run() override {
    if (!scheme_.empty()) {
      options_.scheme = scheme();
    }
    options_.round = compress::search_to_nearest;
    TerminalProgress progress(common_.quiet);
    const auto model = open_model(model_);
    const models::Conversion conversion =
        to_ == "gguf" ? models::convert_gguf(*model, output_, options_, progress)
                      : models::convert_folder(*model, to_, output_, options_, progress);
    if (common_.json) {
      core::Json json = {{"model", model_}, {"output", output_}};
      json.update(conversion_json(to_, conversion));
      print_result("{}\n", json.dump());
    } else {
      print_result("{}: {}\n{}", output_, to_, conversion_text(conversion));
    }
  }

 private:
  formats::Scheme scheme() const {
    try {
      return to_ == "gguf" ? models::scheme_of_gguf_type(scheme_) : formats::parse_scheme(scheme_);
    } catch (const core::Error& error) {
      core::fail(core::ErrorKind::kUsage, "--scheme: {}", error.what());
    }
  }

  std::string to_;
  std::string output_;
  std::string scheme_;
  models::ConversionOptions options_;
};

}  // namespace

std::unique_ptr<Command> convert_command() {
  return std::make_unique<Convert>();
}

}  // namespace nibble::cli
