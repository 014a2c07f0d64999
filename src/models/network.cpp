#include "models/network.h"

namespace nibble::models {
namespace {

template <typename BlockType, typename Set>
std::vector<Set*> collect(BlockType& block) {
  std::vector<Set*> sets = {&block.attention.qkv, &block.attention.out};
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

}  // namespace

std::vector<ops::LinearSet*> linear_sets(Block& block) {
  return collect<Block, ops::LinearSet>(block);
}

std::vector<const ops::LinearSet*> linear_sets(const Block& block) {
  return collect<const Block, const ops::LinearSet>(block);
}

}  // namespace nibble::models
