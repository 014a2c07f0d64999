#include "models/network.h"

namespace nibble::models {
namespace {

template <typename BlockType, typename Set>
std::vector<Set*> collect(BlockType& block) {
  std::vector<Set*> sets = {&block.attention.qkv, &block.attention.out};
  if (block.cross) {
    sets.insert(sets.end(), {&block.cross->q, &block.cross->kv, &block.cross->out});
  }
  if (block.mlp) {
    sets.push_back(&block.mlp->up);
    sets.push_back(&block.mlp->down);
  }
  if (block.router) {
    sets.push_back(&*block.router);
  }
  for (auto& expert : block.experts) {
    sets.push_back(&expert.up);
    sets.push_back(&expert.down);
  }
  return sets;
}

// To the pointers to all elements of `blocks`.
template <typename Blocks, typename BlockType>
void append(Blocks& blocks, std::vector<BlockType*>& all) {
  for (BlockType& block : blocks) {
    all.push_back(&block);
  }
}

void append_head(const Head& head, std::vector<const ops::LinearSet*>& sets) {
  if (head.dense) {
    sets.push_back(&*head.dense);
  }
  sets.push_back(&head.out);
}

}  // namespace

void use_context(Network& network, std::int64_t tokens) {
  NetworkConfig& config = network.config;
  if (!config.long_rope || tokens <= config.max_positions) {
    return;
  }
  config.max_positions = config.long_rope->positions;
  config.inverse_frequency = config.long_rope->inverse_frequency;
  config.long_rope.reset();
  for (Block& block : network.decoder.blocks) {
    block.attention.spec.inverse_frequency = config.inverse_frequency;
  }
}

std::vector<const Block*> all_blocks(const Network& network) {
  std::vector<const Block*> all;
  append(network.encoder.blocks, all);
  append(network.decoder.blocks, all);
  return all;
}

std::vector<Block*> all_blocks(Network& network) {
  std::vector<Block*> all;
  append(network.encoder.blocks, all);
  append(network.decoder.blocks, all);
  return all;
}

std::vector<const ops::LinearSet*> end_sets(const Network& network) {
  std::vector<const ops::LinearSet*> sets;
  if (network.has_decoder()) {
    sets.push_back(&network.output);
  }
  for (const auto* end : {&network.embeddings.project_in, &network.project_out}) {
    if (*end) {
      sets.push_back(&**end);
    }
  }
  if (network.masked_lm) {
    append_head(*network.masked_lm, sets);
  }
  if (network.classifier) {
    append_head(network.classifier->head, sets);
  }
  return sets;
}

std::vector<const ops::LinearSet*> linear_sets(const Network& network) {
  std::vector<const ops::LinearSet*> sets;
  for (const Block* block : all_blocks(network)) {
    const auto of_block = linear_sets(*block);
    sets.insert(sets.end(), of_block.begin(), of_block.end());
  }
  const auto ends = end_sets(network);
  sets.insert(sets.end(), ends.begin(), ends.end());
  return sets;
}

bool shares_embedding(const Network& network, const ops::Linear& layer) {
  return network.embeddings.tokens.is(layer.weight.dense);
}

std::vector<ops::LinearSet*> linear_sets(Block& block) {
  return collect<Block, ops::LinearSet>(block);
}

std::vector<const ops::LinearSet*> linear_sets(const Block& block) {
  return collect<const Block, const ops::LinearSet>(block);
}

}  // namespace nibble::models
