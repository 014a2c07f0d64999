#include "engine/layer_groups.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/nearest_name.h"

namespace nibble::engine {
namespace {

using ops::Epilogue;
using ops::LinearSet;

// A set, and what the forward pass does with its product (models/forward.h).
struct SetUse {
  const LinearSet* set;
  std::int64_t block;
  Epilogue epilogue;
};

std::vector<SetUse> uses_of(const models::Network& network) {
  const Epilogue gate =
      network.config.gated ? Epilogue{false, network.config.activation} : Epilogue();
  std::vector<SetUse> uses;
  std::int64_t number = -1;  // of the block, the encoder's first
  for (const models::Block* each : models::all_blocks(network)) {
    const models::Block& block = *each;
    const bool encodes = ++number < std::ssize(network.encoder.blocks);
    const models::Stack& stack = encodes ? network.encoder : network.decoder;
    const bool pre = stack.norms == models::NormPlacement::kPre;
    const Epilogue residual{pre, std::nullopt};  // post-norm blocks normalize the sum
    uses.push_back({&block.attention.qkv, number, {}});
    uses.push_back({&block.attention.out, number, residual});
    if (block.cross) {
      uses.push_back({&block.cross->q, number, {}});
      uses.push_back({&block.cross->kv, number, {}});
      uses.push_back({&block.cross->out, number, residual});
    }
    if (block.mlp) {
      uses.push_back({&block.mlp->up, number, gate});
      uses.push_back({&block.mlp->down, number, residual});
    }
    if (block.router) {
      uses.push_back({&*block.router, number, {}});
    }
    for (const models::Mlp& expert : block.experts) {
      uses.push_back({&expert.up, number, gate});
      uses.push_back({&expert.down, number, {}});
    }
  }
  for (const LinearSet* set : models::end_sets(network)) {
    uses.push_back({set, -1, {}});
  }
  return uses;
}

std::string last_word(const std::string& name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1: all of it
}

// "q_proj|k_proj|v_proj"
std::string role_of(const LayerPlace& place) {
  std::vector<std::string> words;
  for (std::size_t i = place.first; i < place.first + place.count; ++i) {
    words.push_back(last_word(place.set->parts[i].name));
  }
  return fmt::format("{}", fmt::join(words, "|"));
}

// "layers 0-3, 7" of ascending numbers.
std::string blocks_of(const std::vector<LayerPlace>& places) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (const LayerPlace& place : places) {
    if (runs.empty() || place.block > runs.back().second + 1) {
      runs.emplace_back(place.block, place.block);
    }
    runs.back().second = place.block;
  }
  std::vector<std::string> words;
  for (const auto& [first, last] : runs) {
    words.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  const bool one = runs.size() == 1 && runs[0].first == runs[0].second;
  return fmt::format("{} {}", one ? "layer" : "layers", fmt::join(words, ", "));
}

std::string name_of(const LayerGroup& group) {
  const LayerPlace& front = group.places.front();
  return fmt::format("{} {}", front.block < 0 ? "output" : blocks_of(group.places), role_of(front));
}

bool holds(const LayerPlace& place, std::string_view name) {
  const auto first = place.set->parts.begin() + static_cast<std::ptrdiff_t>(place.first);
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(place.count),
                     [&](const ops::Linear& part) { return part.name == name; });
}

auto key_of(const LayerGroup& group) {
  const ops::LinearProblem& problem = group.problem;
  const LayerPlace& front = group.places.front();
  return std::tuple(role_of(front), front.block < 0, front.alone, problem.n, problem.k,
                    problem.pairs, to_string(problem.scheme));
}

// Puts equal layers into one group each.
class Folding {
 public:
  void add(LayerGroup layer) {
    const auto [at, is_new] = known_.try_emplace(key_of(layer), groups_.size());
    if (is_new) {
      groups_.push_back(std::move(layer));
    } else {
      groups_[at->second].places.push_back(layer.places.front());
    }
  }

  std::vector<LayerGroup> take() {
    for (LayerGroup& group : groups_) {
      group.name = name_of(group);
    }
    return std::move(groups_);
  }

 private:
  std::map<decltype(key_of({})), std::size_t> known_;
  std::vector<LayerGroup> groups_;
};

void require_name(const models::Network& network, std::string_view name) {
  std::vector<std::string> names;
  for (const SetUse& use : uses_of(network)) {
    for (const ops::Linear& part : use.set->parts) {
      names.push_back(part.name);
    }
  }
  core::require(std::find(names.begin(), names.end(), name) != names.end(), core::ErrorKind::kUsage,
                "the model has no linear layer '{}'{}", core::printable(name),
                core::lazily([&] { return core::suggestion(name, names); }));
}

}  // namespace

std::vector<LayerGroup> layer_groups(const models::Network& network, const LayerCuts& cuts,
                                     std::string_view only) {
  if (!only.empty()) {
    require_name(network, only);
  }
  Folding groups;
  for (const SetUse& use : uses_of(network)) {
    const LinearSet& set = *use.set;
    const bool adapted = std::any_of(set.parts.begin(), set.parts.end(),
                                     [](const ops::Linear& part) { return part.low_rank; });
    for (std::size_t first = 0; first < set.parts.size();) {
      const std::size_t count = cuts.joint_parts(set, first);
      LayerGroup layer;
      layer.problem = cuts.problem(set, first, first + count);
      layer.problem.epilogue = use.epilogue;
      layer.places = {{&set, first, count, use.block, count == set.parts.size() && !adapted}};
      if (only.empty() || holds(layer.places.front(), only)) {
        groups.add(std::move(layer));
      }
      first += count;
    }
  }
  return groups.take();
}

}  // namespace nibble::engine
