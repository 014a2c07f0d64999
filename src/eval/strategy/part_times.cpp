#include "eval/strategy/part_times.h"

#include <set>

#include "engine/explain.h"
#include "eval/strategy/part_models.h"

namespace nibble::eval {
namespace {

// The number of each layer's set, by name. Layers of one set run together.
std::map<std::string, int> sets_by_layer(const models::Network& network) {
  std::map<std::string, int> sets;
  int number = 0;
  for (const ops::LinearSet* set : models::linear_sets(network)) {
    for (const ops::Linear& layer : set->parts) {
      sets.emplace(layer.name, number);
    }
    ++number;
  }
  return sets;
}

}  // namespace

std::map<models::LayerPart, PartTime> part_times(const models::Network& network,
                                                 const StrategyOptions& options) {
  engine::ExplainOptions explain;
  explain.tokens = {options.batch * options.seq};
  explain.measure = true;
  explain.folder = options.times_folder;
  const engine::Explanation measured =
      engine::explain_kernels(network, options.runner, explain, core::silent_progress());
  const auto parts = parts_by_layer(network);
  const auto sets = sets_by_layer(network);
  std::map<models::LayerPart, PartTime> times;
  for (const engine::ExplainedLayer& layer : measured.layers) {
    const auto part = parts.find(layer.parts.front());
    if (part == parts.end()) {
      continue;  // the output layer
    }
    std::set<int> runs;
    for (const std::string& name : layer.parts) {
      runs.insert(sets.at(name));
    }
    const engine::KernelTime& time = layer.runs.front().time.value();
    const auto count = static_cast<double>(runs.size());
    times[part->second].microseconds += count * time.microseconds;
    times[part->second].limit_microseconds += count * time.limit_microseconds;
  }
  return times;
}

}  // namespace nibble::eval
