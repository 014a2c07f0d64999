#include "tune/qat/fewer_layers.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "io/file_descriptor.h"
#include "models/weight_source.h"

namespace nibble::tune {
namespace {

using core::ErrorKind;

// Tensors of another source under new names.
class RenamedSource final : public models::WeightSource {
 public:
  RenamedSource(std::shared_ptr<const models::WeightSource> from,
                std::vector<std::pair<std::string, std::string>> names)  // new and old
      : from_(std::move(from)),
        ordered_(std::move(names)),
        old_(ordered_.begin(), ordered_.end()) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, old] : ordered_) {
      names.push_back(name);
    }
    return names;
  }
  bool contains(std::string_view name) const override { return old_.contains(name); }
  core::Tensor load(std::string_view name) const override { return from_->load(old(name)); }
  core::Tensor load_or_bytes(std::string_view name) const override {
    return from_->load_or_bytes(old(name));
  }
  void release_pages() const override { from_->release_pages(); }
  void release_pages(std::string_view name) const override {
    if (contains(name)) {
      from_->release_pages(old(name));
    }
  }
  void check_intact() const override { from_->check_intact(); }
  void check_unchanged() const override { from_->check_unchanged(); }
  std::vector<std::filesystem::path> files() const override { return from_->files(); }
  bool stores_conv1d() const override { return from_->stores_conv1d(); }

 private:
  const std::string& old(std::string_view name) const {
    const auto found = old_.find(name);
    core::require(found != old_.end(), ErrorKind::kInvalidModel, "there is no tensor {}",
                  core::printable(name));
    return found->second;
  }

  std::shared_ptr<const models::WeightSource> from_;
  std::vector<std::pair<std::string, std::string>> ordered_;
  std::map<std::string, std::string, std::less<>> old_;
};

// Calls change(name) for the name of each layer and norm of a block.
template <typename Change>
void for_each_name(models::Block& block, Change change) {
  for (ops::LinearSet* set : models::linear_sets(block)) {
    for (ops::Linear& layer : set->parts) {
      change(layer.name);
    }
  }
  change(block.attention_norm.name);
  change(block.mlp_norm.name);
  for (auto* norm : {&block.attention_out_norm, &block.mlp_out_norm}) {
    if (*norm) {
      change((*norm)->name);
    }
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

// The number of layers in config.json.
void set_layers(core::Json& config, std::int64_t from, std::int64_t to) {
  for (const char* key : {"num_hidden_layers", "n_layers"}) {
    if (const auto found = config.find(key); found != config.end() && *found == from) {
      *found = to;
      return;
    }
  }
  core::fail(ErrorKind::kUsage, "config.json does not say that the model has {} layers", from);
}

}  // namespace

std::vector<std::int64_t> every_other_layer(std::int64_t all, std::int64_t count) {
  core::require(count >= 1 && count <= all, ErrorKind::kUsage,
                "--layers {}: the model has {}; take 1 to {}", count, all, all);
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 0; i < count; ++i) {
    layers.push_back((i + 1) * all / count - 1);
  }
  return layers;
}

models::Model with_layers(const models::Model& model, const std::vector<std::int64_t>& layers) {
  const models::Network& network = model.network;
  core::require(network.has_encoder() && !network.has_decoder(), ErrorKind::kUsage,
                "{} is no encoder alone: layers of other models are not left out",
                io::shown(model.path));
  const auto& blocks = network.encoder.blocks;
  const std::string prefix = prefix_of(blocks.front(), 0);
  std::map<std::string, std::string, std::less<>> renamed;  // beginnings of names, old to new
  models::Model result = model;
  result.network.encoder.blocks.clear();
  result.network.config.windows.clear();
  for (const std::int64_t layer : layers) {
    const auto& block = blocks.at(static_cast<std::size_t>(layer));
    core::require(prefix_of(block, layer) == prefix, ErrorKind::kUsage,
                  "layer {} is named otherwise than the first: layers cannot be left out",
                  layer + 1);
    const std::string old = fmt::format("{}{}.", prefix, layer);
    const std::string now = fmt::format("{}{}.", prefix, result.network.encoder.blocks.size());
    renamed.emplace(old, now);
    if (!network.config.windows.empty()) {
      result.network.config.windows.push_back(
          network.config.windows.at(static_cast<std::size_t>(layer)));
    }
    result.network.encoder.blocks.push_back(block);
    for_each_name(result.network.encoder.blocks.back(),
                  [&](std::string& name) { name = now + name.substr(old.size()); });
  }
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string& name : model.source->names()) {
    if (!name.starts_with(prefix)) {
      names.emplace_back(name, name);
      continue;
    }
    const std::string begin = name.substr(0, name.find('.', prefix.size()) + 1);
    if (const auto found = renamed.find(begin); found != renamed.end()) {
      names.emplace_back(found->second + name.substr(begin.size()), name);
    }
  }
  result.source = std::make_shared<RenamedSource>(model.source, std::move(names));
  const auto count = std::ssize(layers);
  set_layers(result.config_json, network.config.layers, count);
  result.network.config.layers = count;
  return result;
}

}  // namespace nibble::tune
