#include <algorithm>

#include "cli/commands.h"
#include "cli/layer_report.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/page_file.h"
#include "cli/terminal_progress.h"
#include "cli/text_input.h"
#include "core/json.h"
#include "core/nearest_name.h"
#include "eval/tensor_summary.h"
#include "models/model.h"
#include "report/html.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

class Inspect final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    add_option(app, "tensor", tensor_, "A layer or tensor, to see its statistics");
    const Option layer =
        add_option(app, "--layer", layer_, "A layer, to see its weights and codes");
    layer->excludes("tensor");
    const Option text = add_option(app, "--text", text_, "Also what the layer reads on this text");
    text->needs(layer);
    add_option(app, "--seq-len", activations_.seq_len,
               "Tokens of a window (default: what the model was made for)")
        ->positive()
        ->needs(text);
    add_option(app, "--max-tokens", activations_.max_tokens,
               "Use only the first tokens of the text")
        ->positive()
        ->needs(text)
        ->capture_default_str();
    add_threads(app, activations_.threads);
    add_option(app, "--html", html_, "Write a page instead");
  }

  void run() override {
    PageFile page(html_);
    const auto model = models::open_model(model_);
    const auto layers = layers_of(model->network);
    if (!layer_.empty()) {
      return inspect_layer(*model, layers, page);
    }
    if (!tensor_.empty()) {
      return inspect_tensor(*model, layers);
    }
    if (page) {
      return page.write(report::page(
          "Model " + model_, {report::to_html(head(*model)), report::to_html(table(layers))}));
    }
    if (common_.json) {
      return print_json(*model, layers);
    }
    print_result("{}\n{}", report::to_text(head(*model)), report::to_text(table(layers)));
  }

 private:
  static std::vector<const ops::Linear*> layers_of(const models::Network& network) {
    std::vector<const ops::Linear*> layers;
    for (const ops::LinearSet* set : models::linear_sets(network)) {
      for (const ops::Linear& part : set->parts) {
        if (!models::shares_embedding(network, part)) {
          layers.push_back(&part);
        }
      }
    }
    return layers;
  }

  report::Table head(const models::Model& model) const {
    const models::NetworkConfig& config = model.network.config;
    const auto number = [](std::int64_t value) { return fmt::format("{}", value); };
    report::Table table;
    table.columns = {"model", model_};
    table.rows = {
        {"family", config.family},
        {"recipe", model.compression.recipe.empty()
                       ? "none"
                       : core::printable(model.compression.recipe).str()},
        {"layers", number(config.layers)},
        {"hidden", number(config.hidden)},
        {"heads", fmt::format("{} / {} key-value", config.heads, config.kv_heads)},
        {"head size", number(config.head_dim)},
        {"ffn", number(config.ffn)},
        {"vocabulary", number(config.vocabulary)},
        {"context", config.long_rope
                        ? fmt::format("{} (up to {} with --context)", config.max_positions,
                                      config.long_rope->positions)
                        : number(config.max_positions)},
        {"bits per weight in blocks",
         fmt::format("{:.3f}", models::block_bits_per_weight(model.network))},
        {"weights",
         fmt::format("{:.2f} MB",
                     static_cast<double>(models::total_weight_bytes(model.network)) / 1e6)}};
    for (const std::string& remark : model.compression.remarks) {
      table.rows.push_back({"not as stored", core::printable(remark).str()});
    }
    if (config.routing.experts > 0) {
      table.rows.push_back(
          {"experts", fmt::format("{} of {}", config.routing.top, config.routing.experts)});
    }
    return table;
  }

  static report::Table table(const std::vector<const ops::Linear*>& layers) {
    report::Table table;
    table.columns = {"layer", "scheme", "outputs", "inputs", "bits/weight", "bytes"};
    for (const ops::Linear* layer : layers) {
      table.rows.push_back({layer->name, formats::to_string(layer->weight.scheme),
                            fmt::format("{}", layer->weight.n), fmt::format("{}", layer->weight.k),
                            fmt::format("{:.3f}", formats::bits_per_weight(layer->weight)),
                            fmt::format("{}", formats::stored_bytes(layer->weight))});
    }
    return table;
  }

  void print_json(const models::Model& model, const std::vector<const ops::Linear*>& layers) const {
    core::Json list = core::Json::array();
    for (const ops::Linear* layer : layers) {
      list.push_back({{"name", layer->name},
                      {"scheme", formats::to_string(layer->weight.scheme)},
                      {"shape", {layer->weight.n, layer->weight.k}},
                      {"bits_per_weight", formats::bits_per_weight(layer->weight)},
                      {"bytes", formats::stored_bytes(layer->weight)}});
    }
    const models::NetworkConfig& config = model.network.config;
    const core::Json json = {
        {"model", model_},
        {"family", config.family},
        {"recipe", model.compression.recipe.empty() ? "none" : model.compression.recipe},
        {"layers", config.layers},
        {"hidden", config.hidden},
        {"heads", config.heads},
        {"kv_heads", config.kv_heads},
        {"vocabulary", config.vocabulary},
        {"context", config.max_positions},
        {"bits_per_weight", models::block_bits_per_weight(model.network)},
        {"weight_bytes", models::total_weight_bytes(model.network)},
        {"not_as_stored", model.compression.remarks},
        {"linear_layers", std::move(list)}};
    print_result("{}\n", json.dump(-1, ' ', false, core::Json::error_handler_t::replace));
  }

  using Layers = std::vector<const ops::Linear*>;

  static Layers::const_iterator find_layer(const Layers& layers, const std::string& name) {
    return std::find_if(layers.begin(), layers.end(), [&](const ops::Linear* candidate) {
      return candidate->name == name || candidate->name + ".weight" == name;
    });
  }

  static std::vector<std::string> names_of(const Layers& layers) {
    std::vector<std::string> names;
    for (const ops::Linear* layer : layers) {
      names.push_back(layer->name);
    }
    return names;
  }

  void inspect_layer(const models::Model& model, const Layers& layers, PageFile& page) {
    const auto layer = find_layer(layers, layer_);
    if (layer == layers.end()) {
      core::fail(core::ErrorKind::kUsage, "{} has no layer '{}'{} (nibble inspect {} lists them)",
                 model_, core::printable(layer_), core::suggestion(layer_, names_of(layers)),
                 model_);
    }
    LayerView view{*layer, eval::profile_weights((*layer)->weight), std::nullopt};
    if (!text_.empty()) {
      view.activations = read_activations(model, (*layer)->name);
    }
    if (page) {
      page.write(layer_page(view, model_));
    } else if (common_.json) {
      print_result("{}\n",
                   layer_json(view).dump(-1, ' ', false, core::Json::error_handler_t::replace));
    } else {
      write_result(layer_text(view));
    }
  }

  eval::ActivationProfile read_activations(const models::Model& model, const std::string& layer) {
    const std::int64_t most = model.network.config.max_positions;
    activations_.seq_len = activations_.seq_len == 0 ? most : activations_.seq_len;
    core::require(activations_.seq_len <= most, core::ErrorKind::kUsage,
                  "--seq-len {} is longer than the {} tokens that the model was made for",
                  activations_.seq_len, most);
    const auto tokens = model.tokenizer->encode(read_text(text_), {});
    TerminalProgress progress(common_.quiet);
    return eval::profile_activations(model, layer, tokens, activations_, progress);
  }

  void inspect_tensor(const models::Model& model,
                      const std::vector<const ops::Linear*>& layers) const {
    eval::TensorSummary summary;
    std::string scheme;
    const auto layer = find_layer(layers, tensor_);
    if (layer != layers.end()) {
      summary = eval::summarize((*layer)->weight);
      scheme = formats::to_string((*layer)->weight.scheme);
    } else {
      if (!model.source->contains(tensor_)) {
        std::vector<std::string> names = names_of(layers);
        const std::vector<std::string> tensors = model.source->names();
        names.insert(names.end(), tensors.begin(), tensors.end());
        core::fail(core::ErrorKind::kUsage,
                   "{} has no layer or tensor '{}'{} (nibble inspect {} lists the layers)", model_,
                   core::printable(tensor_), core::suggestion(tensor_, names), model_);
      }
      const core::Tensor tensor = model.source->load(tensor_);
      summary = eval::summarize(tensor);
      scheme = std::string(core::name_of(tensor.dtype()));
    }
    if (common_.json) {
      const core::Json json = {{"tensor", tensor_},          {"type", scheme},
                               {"shape", summary.shape},     {"minimum", summary.minimum},
                               {"maximum", summary.maximum}, {"mean", summary.mean},
                               {"rms", summary.rms},         {"not_finite", summary.not_finite}};
      print_result("{}\n", json.dump());
      return;
    }
    print_result("{} {} {}: minimum {:g}, maximum {:g}, mean {:g}, rms {:g}, {} not finite\n",
                 tensor_, scheme, core::to_string(summary.shape), summary.minimum, summary.maximum,
                 summary.mean, summary.rms, summary.not_finite);
  }

  std::string tensor_;
  std::string layer_;
  std::string text_;
  eval::ActivationOptions activations_{0, 8192, 0};
  std::string html_;
};

}  // namespace

std::unique_ptr<Command> inspect_command() {
  return std::make_unique<Inspect>();
}

}  // namespace nibble::cli
