#include "eval/analysis/places.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/error.h"

namespace nibble::eval {
namespace {

BlockAnalysis empty_block(const models::Block& block, bool with_noise) {
  BlockAnalysis result;
  std::vector<PlaceNoise> noise;
  for (const NamedSet& named : named_sets(block)) {
    result.ranges.push_back({std::string(named.input), {}, {}});
    for (const ops::Linear& part : named.set->parts) {
      noise.push_back({part.name, {}, {}});
    }
  }
  result.ranges.push_back({std::string(kStream), {}, {}});
  noise.push_back({std::string(kStream), {}, {}});
  if (with_noise) {
    result.noise = std::move(noise);
  }
  return result;
}

// All sizes that must agree, one after another.
std::vector<std::int64_t> shape_of(const models::Network& network) {
  std::vector<std::int64_t> shape = {network.config.vocabulary, network.config.hidden,
                                     std::ssize(network.encoder.blocks),
                                     std::ssize(network.decoder.blocks)};
  for (const models::Block* block : models::all_blocks(network)) {
    for (const NamedSet& named : named_sets(*block)) {
      for (const ops::Linear& part : named.set->parts) {
        shape.insert(shape.end(), {part.weight.n, part.weight.k});
      }
    }
  }
  return shape;
}

}  // namespace

std::vector<NamedSet> named_sets(const models::Block& block) {
  std::vector<NamedSet> sets = {{"qkv input", &block.attention.qkv},
                                {"attention out input", &block.attention.out}};
  if (block.cross) {
    sets.push_back({"cross kv input", &block.cross->kv});
    sets.push_back({"cross q input", &block.cross->q});
    sets.push_back({"cross out input", &block.cross->out});
  }
  if (block.mlp) {
    sets.push_back({"mlp in input", &block.mlp->up});
    sets.push_back({"mlp out input", &block.mlp->down});
  }
  if (block.router) {
    sets.push_back({"router input", &*block.router});
  }
  std::size_t layers = 0;
  for (NamedSet& named : sets) {
    named.first_layer = layers;
    layers += named.set->parts.size();
  }
  return sets;
}

std::optional<std::size_t> find_set(const std::vector<NamedSet>& sets, const ops::LinearSet& set) {
  const auto found = std::find_if(sets.begin(), sets.end(), [&](const NamedSet& candidate) {
    return candidate.set->id == set.id;
  });
  return found == sets.end()
             ? std::nullopt
             : std::optional<std::size_t>(static_cast<std::size_t>(found - sets.begin()));
}

StackAnalysis empty_stack(std::string name, const models::Stack& stack, bool with_noise) {
  StackAnalysis result{std::move(name), stack.norms, {std::string(kStream), {}, {}}, {}};
  for (const models::Block& block : stack.blocks) {
    result.blocks.push_back(empty_block(block, with_noise));
  }
  return result;
}

void require_same_shape(const models::Network& model, const models::Network& quantized) {
  core::require(shape_of(model) == shape_of(quantized), core::ErrorKind::kUsage,
                "the two models differ in their blocks, sizes or vocabulary; the second must be "
                "the first one, quantized");
}

}  // namespace nibble::eval
