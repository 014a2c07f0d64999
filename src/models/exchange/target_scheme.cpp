#include "models/exchange/target_scheme.h"

#include <algorithm>
#include <map>

#include "models/exchange/model_layers.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using formats::Scheme;

// The scheme that most weights come to; of equals the first by name.
Scheme most_common(const std::vector<const ops::Linear*>& layers,
                   const formats::exchange::Writer& writer) {
  std::map<std::string, std::int64_t> weights;
  for (const ops::Linear* layer : layers) {
    Scheme nearest = writer.nearest(layer->weight.scheme);
    nearest.inputs.ordered = false;
    weights[formats::to_string(nearest)] += layer->weight.n * layer->weight.k;
  }
  const auto most =
      std::max_element(weights.begin(), weights.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return formats::parse_scheme(most->first);
}

}  // namespace

Scheme target_scheme(const Model& model, std::string_view method,
                     const formats::exchange::Writer& writer, const std::optional<Scheme>& asked) {
  if (asked) {
    core::require(!formats::is_dense(*asked), ErrorKind::kUsage, "{} has no layers in {}", method,
                  *asked);
    core::require(writer.nearest(*asked) == *asked, ErrorKind::kUsage,
                  "{} has no layers in {}; {} comes nearest", method, *asked,
                  writer.nearest(*asked));
    Scheme scheme = *asked;
    scheme.inputs.ordered = false;
    return scheme;
  }
  const std::vector<const ops::Linear*> layers = layers_to_convert(model.network);
  for (const ops::Linear* layer : layers) {
    const Scheme& stored = layer->weight.scheme;
    core::require(formats::has_codes(stored) || formats::is_dense(stored), ErrorKind::kUsage,
                  "{} has no place for the {} of layer {}; hf and gguf write it with its zeros, or "
                  "say what it shall be rounded to (--scheme int4-sym-g128)",
                  method, stored, core::printable(layer->name));
  }
  core::require(!layers.empty() && formats::has_codes(layers.front()->weight.scheme),
                ErrorKind::kUsage,
                "no layer of the model is compressed: quantize it first (nibble quantize), or say "
                "what {} shall round its layers to (--scheme int4-sym-g128)",
                method);
  return most_common(layers, writer);
}

void require_family(const Model& model, std::string_view method) {
  const Network& network = model.network;
  core::require(!network.has_encoder(), ErrorKind::kInvalidModel,
                "models with an encoder are not written as {}, only as hf", method);
  core::require(network.config.routing.experts == 0, ErrorKind::kInvalidModel,
                "mixtures of experts are not written as {}, only as hf and gguf", method);
  core::require(!stores_conv1d(model), ErrorKind::kInvalidModel,
                "{} has its own class of layers (Conv1D), which readers of {} don't take; write it "
                "as gguf or hf",
                network.config.family, method);
}

}  // namespace nibble::models
