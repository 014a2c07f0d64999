#include "eval/strategy/part_times.h"

#include <algorithm>
#include <set>

#include "engine/explain.h"
#include "eval/strategy/part_models.h"

namespace nibble::eval {

std::map<std::string, LayerUse> uses_by_layer(const models::Network& network, std::int64_t seq) {
  std::map<std::string, LayerUse> uses;
  LayerUse use;
  const auto add = [&](const models::Block& block) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      use.by_token = block.cross && set != &block.cross->kv;
      use.times = use.by_token ? static_cast<double>(seq) : 1.0;
      for (const ops::Linear& layer : set->parts) {
        uses.emplace(layer.name, use);
      }
      ++use.set;
    }
  };
  std::for_each(network.encoder.blocks.begin(), network.encoder.blocks.end(), add);
  std::for_each(network.decoder.blocks.begin(), network.decoder.blocks.end(), add);
  return uses;
}

std::map<models::LayerPart, PartTime> part_times(const models::Network& network,
                                                 const StrategyOptions& options) {
  engine::ExplainOptions explain;
  explain.tokens = {options.batch * options.seq};
  if (network.has_encoder() && network.has_decoder()) {
    explain.tokens.push_back(options.batch);
  }
  explain.measure = true;
  explain.folder = options.times_folder;
  const engine::Explanation measured =
      engine::explain_kernels(network, options.runner, explain, core::silent_progress());
  const auto parts = parts_by_layer(network);
  const auto uses = uses_by_layer(network, options.seq);
  std::map<models::LayerPart, PartTime> times;
  for (const engine::ExplainedLayer& layer : measured.layers) {
    std::set<int> seen;
    for (const std::string& name : layer.parts) {
      const auto part = parts.find(name);
      if (part == parts.end() || !seen.insert(uses.at(name).set).second) {
        continue;  // the output layer; a set that was counted
      }
      const LayerUse& use = uses.at(name);
      const engine::KernelTime& time = layer.runs.at(use.by_token ? 1 : 0).time.value();
      times[part->second].microseconds += use.times * time.microseconds;
      times[part->second].limit_microseconds += use.times * time.limit_microseconds;
    }
  }
  return times;
}

}  // namespace nibble::eval
