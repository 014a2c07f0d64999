#include "tune/qat/fewer_layers.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "io/file_descriptor.h"
#include "models/renamed_source.h"
#include "tune/block_layers.h"

namespace nibble::tune {
namespace {

using core::ErrorKind;

// Calls change(name) for the name of each layer and norm of a block.
template <typename Change>
void for_each_name(models::Block& block, Change change) {
  for (ops::LinearSet* set : models::linear_sets(block)) {
    for (ops::Linear& layer : set->parts) {
      change(layer.name);
    }
  }
  for (ops::Norm* norm : norms_of(block)) {
    change(norm->name);
  }
}

// "bert.encoder.layer." where the names of layer `index` begin with "bert.encoder.layer.3.".
std::string prefix_of(models::Block block, std::int64_t index) {
  const std::string component = fmt::format(".{}.", index);
  std::optional<std::string> prefix;
  for_each_name(block, [&](const std::string& name) {
    const std::size_t at = name.find(component);
    const std::string here = at == std::string::npos ? "" : name.substr(0, at + 1);
    core::require(!here.empty() && prefix.value_or(here) == here, ErrorKind::kUsage,
                  "layer {} is not named by its number ({}): layers cannot be left out", index + 1,
                  core::printable(name));
    prefix = here;
  });
  return prefix.value_or("");
}

// The beginnings of tensors' names of a stack, old to new.
struct Renamed {
  std::string prefix;  // of all its layers
  std::map<std::string, std::string, std::less<>> layers;
};

// Leaves these blocks of a stack alone, under their new names.
Renamed keep_blocks(models::Stack& stack, const std::vector<std::int64_t>& layers) {
  Renamed renamed{prefix_of(stack.blocks.front(), 0), {}};
  std::vector<models::Block> kept;
  for (const std::int64_t layer : layers) {
    models::Block block = stack.blocks.at(static_cast<std::size_t>(layer));
    core::require(prefix_of(block, layer) == renamed.prefix, ErrorKind::kUsage,
                  "layer {} is named otherwise than the first: layers cannot be left out",
                  layer + 1);
    const std::string old = fmt::format("{}{}.", renamed.prefix, layer);
    const std::string now = fmt::format("{}{}.", renamed.prefix, kept.size());
    renamed.layers.emplace(old, now);
    for_each_name(block, [&](std::string& name) { name = now + name.substr(old.size()); });
    kept.push_back(std::move(block));
  }
  stack.blocks = std::move(kept);
  return renamed;
}

// The new name of a tensor; none where its layer is left out.
std::optional<std::string> new_name(const std::string& name, std::span<const Renamed> stacks) {
  for (const Renamed& stack : stacks) {
    if (name.starts_with(stack.prefix)) {
      const std::string begin = name.substr(0, name.find('.', stack.prefix.size()) + 1);
      const auto found = stack.layers.find(begin);
      return found == stack.layers.end() ? std::nullopt
                                         : std::optional(found->second + name.substr(begin.size()));
    }
  }
  return name;
}

// The numbers of layers in config.json: each of `keys` that is there.
void set_layers(core::Json& config, std::initializer_list<const char*> keys, std::int64_t from,
                std::int64_t to) {
  bool found = false;
  for (const char* key : keys) {
    if (const auto number = config.find(key); number != config.end() && *number == from) {
      *number = to;
      found = true;
    }
  }
  core::require(found, ErrorKind::kUsage, "config.json does not say that the model has {} layers",
                from);
}

}  // namespace

std::vector<std::int64_t> every_other_layer(std::int64_t all, std::int64_t count,
                                            std::string_view option) {
  core::require(count >= 1 && count <= all, ErrorKind::kUsage,
                "{} {}: the model has {}; take 1 to {}", option, count, all, all);
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 0; i < count; ++i) {
    layers.push_back((i + 1) * all / count - 1);
  }
  return layers;
}

KeptLayers every_other_layer(const models::Network& network, const LayerCounts& counts) {
  const auto of = [](const models::Stack& stack, std::int64_t count, std::string_view option) {
    const auto all = std::ssize(stack.blocks);
    return all == 0 && count == 0 ? std::vector<std::int64_t>()
                                  : every_other_layer(all, count == 0 ? all : count, option);
  };
  return {
      of(network.encoder, counts.encoder, network.has_decoder() ? "--encoder-layers" : "--layers"),
      of(network.decoder, counts.decoder, network.has_encoder() ? "--decoder-layers" : "--layers")};
}

std::vector<std::int64_t> among_all_blocks(const KeptLayers& layers,
                                           const models::Network& network) {
  std::vector<std::int64_t> all = layers.encoder;
  for (const std::int64_t layer : layers.decoder) {
    all.push_back(std::ssize(network.encoder.blocks) + layer);
  }
  return all;
}

models::Model with_layers(const models::Model& model, const KeptLayers& layers) {
  const models::Network& network = model.network;
  const auto& windows = network.config.windows;
  const bool differ =
      std::adjacent_find(windows.begin(), windows.end(), std::not_equal_to<>()) != windows.end();
  core::require(network.has_encoder() || !differ, ErrorKind::kUsage,
                "{} has layers of several kinds of attention, which config.json tells by their "
                "numbers: layers of such models are not left out",
                io::shown(model.path));
  models::Model result = model;
  std::vector<Renamed> stacks;
  const std::int64_t encoder_layers = std::ssize(network.encoder.blocks);
  const std::int64_t decoder_layers = std::ssize(network.decoder.blocks);
  if (network.has_encoder()) {
    stacks.push_back(keep_blocks(result.network.encoder, layers.encoder));
  }
  if (network.has_decoder()) {
    stacks.push_back(keep_blocks(result.network.decoder, layers.decoder));
  }
  if (network.has_encoder() && network.has_decoder()) {
    set_layers(*result.config_json, {"encoder_layers", "num_hidden_layers"}, encoder_layers,
               std::ssize(layers.encoder));
    set_layers(*result.config_json, {"decoder_layers"}, decoder_layers, std::ssize(layers.decoder));
  } else {
    set_layers(*result.config_json, {"num_hidden_layers", "n_layers", "n_layer"},
               encoder_layers + decoder_layers,
               std::ssize(layers.encoder) + std::ssize(layers.decoder));
  }
  if (const auto types = result.config_json->find("layer_types");
      !network.has_encoder() && types != result.config_json->end() && types->is_array()) {
    while (types->size() > layers.decoder.size()) {
      types->erase(types->size() - 1);  // all are alike
    }
  }
  // config's layers are the decoder's where there is one.
  const auto& of_config = network.has_decoder() ? layers.decoder : layers.encoder;
  result.network.config.layers = std::ssize(of_config);
  result.network.config.windows.clear();
  for (const std::int64_t layer : of_config) {
    if (!network.config.windows.empty()) {
      result.network.config.windows.push_back(
          network.config.windows.at(static_cast<std::size_t>(layer)));
    }
  }
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string& name : model.source->names()) {
    if (auto renamed = new_name(name, stacks)) {
      names.emplace_back(*std::move(renamed), name);
    }
  }
  result.source = std::make_shared<models::RenamedSource>(model.source, std::move(names));
  return result;
}

std::string layers_of(const models::Network& network) {
  const std::size_t encoder = network.encoder.blocks.size();
  const std::size_t decoder = network.decoder.blocks.size();
  return network.has_encoder() && network.has_decoder() ? fmt::format("{}-{}", encoder, decoder)
                                                        : std::to_string(encoder + decoder);
}

}  // namespace nibble::tune
