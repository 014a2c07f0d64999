#include <algorithm>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "compress/search/searched_rounding.h"
#include "models/exchange/conversion.h"
#include "models/gguf/gguf_export.h"

namespace nibble::cli {
namespace {

constexpr double kPercent = 100;

class Convert final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    app.add_option("--to", to_,
                   "gguf (llama.cpp), gptq, awq, compressed-tensors (vLLM, transformers), or hf "
                   "(plain float tensors, transformers)")
        ->required()
        ->check(CLI::IsMember({"gguf", "gptq", "awq", "compressed-tensors", "hf", "mlx"}));
    app.add_option("-o,--output", output_, "Folder (gguf: file) to write; must not exist")
        ->required();
    app.add_option("--scheme", scheme_,
                   "What layers become, where it is not what comes nearest to them: int4-sym-g128, "
                   "f16, ... (gguf: int4-sym-g32 is Q4_0, int4-asym-g32 Q4_1, int8-sym-g32 Q8_0)");
    add_threads(app, options_.threads);
  }

  void run() override {
    core::require(to_ != "mlx", core::ErrorKind::kUsage,
                  "models are not written as mlx: write one as hf, and let mlx_lm.convert quantize "
                  "it");
    if (!scheme_.empty()) {
      options_.scheme = scheme();
    }
    options_.round = compress::search_to_nearest;
    TerminalProgress progress(common_.quiet);
    const auto model = open_model(model_);
    const models::Conversion conversion =
        to_ == "gguf" ? models::convert_gguf(*model, output_, options_, progress)
                      : models::convert_folder(*model, to_, output_, options_, progress);
    common_.json ? print_json(conversion) : print_text(conversion);
  }

 private:
  formats::Scheme scheme() const {
    try {
      return formats::parse_scheme(scheme_);
    } catch (const core::Error& error) {
      core::fail(core::ErrorKind::kUsage, "--scheme: {}", error.what());
    }
  }

  static std::int64_t exact_layers(const models::Conversion& conversion) {
    return std::count_if(conversion.layers.begin(), conversion.layers.end(),
                         [](const auto& layer) { return layer.exact; });
  }

  void print_json(const models::Conversion& conversion) const {
    core::Json layers = core::Json::array();
    for (const models::ConvertedLayer& layer : conversion.layers) {
      layers.push_back({{"name", layer.name},
                        {"from", layer.from},
                        {"to", layer.to},
                        {"exact", layer.exact},
                        {"relative_error", layer.relative_error()}});
    }
    print_result("{}\n", core::Json{{"model", model_},
                                    {"output", output_},
                                    {"to", to_},
                                    {"layers", layers},
                                    {"exact_layers", exact_layers(conversion)},
                                    {"relative_error", conversion.relative_error()},
                                    {"remarks", conversion.remarks}}
                             .dump());
  }

  void print_text(const models::Conversion& conversion) const {
    std::map<std::pair<std::string, std::string>, models::Conversion> kinds;
    for (const models::ConvertedLayer& layer : conversion.layers) {
      kinds[{layer.from, layer.to}].layers.push_back(layer);
    }
    std::string text = fmt::format("{}: {}\n", output_, to_);
    for (const auto& [kind, part] : kinds) {
      text += fmt::format("  {} layers {} -> {}: {}\n", part.layers.size(), kind.first, kind.second,
                          change(part));
    }
    for (const std::string& remark : conversion.remarks) {
      text += fmt::format("  {}\n", remark);
    }
    print_result("{}", text);
  }

  static std::string change(const models::Conversion& part) {
    if (exact_layers(part) == std::ssize(part.layers)) {
      return "exact";
    }
    const models::ConvertedLayer& worst = *part.worst();
    return fmt::format("added error {:.3g} % (relative, Frobenius), worst {:.3g} % in {}",
                       kPercent * part.relative_error(), kPercent * worst.relative_error(),
                       worst.name);
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
