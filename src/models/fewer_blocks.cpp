#include "models/fewer_blocks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "io/file_descriptor.h"
#include "models/build_model.h"
#include "models/renamed_source.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Json;

// "model.layers.3." of each block.
std::vector<std::string> block_prefixes(const Network& network, const Family& family) {
  std::vector<std::string> prefixes;
  for (const Block& block : network.decoder.blocks) {
    std::string name = block.attention_norm.name;
    name.resize(name.size() - family.names.attention_norm.size());
    prefixes.push_back(std::move(name));
  }
  return prefixes;
}

bool is_in(std::span<const std::int64_t> removed, std::size_t block) {
  return std::binary_search(removed.begin(), removed.end(), static_cast<std::int64_t>(block));
}

template <typename List>
List kept_of(const List& list, std::span<const std::int64_t> removed) {
  List kept;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!is_in(removed, i)) {
      kept.push_back(list[i]);
    }
  }
  return kept;
}

// The names of the tensors that stay, new and old.
std::vector<std::pair<std::string, std::string>> names_without(
    const WeightSource& source, const std::vector<std::string>& prefixes,
    std::span<const std::int64_t> removed) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string& name : source.names()) {
    std::size_t place = 0;  // of the block among those that stay
    std::size_t block = 0;
    while (block < prefixes.size() && !name.starts_with(prefixes[block])) {
      place += is_in(removed, block) ? 0 : 1;
      ++block;
    }
    if (block == prefixes.size()) {
      names.emplace_back(name, name);
    } else if (!is_in(removed, block)) {
      names.emplace_back(prefixes[place] + name.substr(prefixes[block].size()), name);
    }
  }
  return names;
}

Json config_without(Json config, std::int64_t blocks, std::span<const std::int64_t> removed) {
  for (const char* count : {"num_hidden_layers", "n_layer"}) {
    if (config.contains(count)) {
      config[count] = blocks;
    }
  }
  if (const auto types = config.find("layer_types"); types != config.end() && types->is_array()) {
    *types = kept_of(*types, removed);
  }
  if (const auto text = config.find("text_config"); text != config.end()) {
    *text = config_without(*text, blocks, removed);
  }
  return config;
}

}  // namespace

std::shared_ptr<Model> without_blocks(const Model& model, std::span<const std::int64_t> removed) {
  const Family& family = find_family(model.network.config.family);
  const std::vector<std::string> prefixes = block_prefixes(model.network, family);
  const std::int64_t blocks = std::ssize(prefixes) - std::ssize(removed);
  auto result = std::make_shared<Model>(model);
  result->config_json = config_without(*model.config_json, blocks, removed);
  const Architecture before = family.read_config(*model.config_json);
  const Architecture after = family.read_config(*result->config_json);
  core::require(after.config.layers == blocks &&
                    after.config.windows == kept_of(before.config.windows, removed) &&
                    after.dense_ffn == kept_of(before.dense_ffn, removed),
                ErrorKind::kUsage,
                "the number of a block of {} says what it is (its window, its experts): without "
                "blocks before it, it would be another",
                io::shown(model.path));
  result->source = std::make_shared<RenamedSource>(model.source,
                                                   names_without(*model.source, prefixes, removed));
  build(*result, family, Shard());
  return result;
}

}  // namespace nibble::models
