#include "ops/cuda/layer_chain/pending_layers.h"

#include <utility>

namespace nibble::ops::cuda {

bool PendingLayers::takes(const ChainedLayer& layer) {
  return !refused_ && LayerChain::fits({&layer, 1}) && chain_.hold();
}

void PendingLayers::add(const ChainedLayer& layer, cudaStream_t stream) {
  const bool continues = !waiting_.empty() && layer.codes.codes == nullptr &&
                         layer.row == waiting_.back().y && waiting_.size() < kMostChained;
  if (!continues) {
    start(stream);
  }
  waiting_.push_back(layer);
  if (waiting_.size() > 1 && !LayerChain::fits(waiting_)) {
    waiting_.pop_back();
    start(stream);
    waiting_.push_back(layer);
  }
}

void PendingLayers::start_waiting(cudaStream_t stream) {
  const std::vector<ChainedLayer> layers = std::exchange(waiting_, {});
  chain_.run(layers, stream);
}

}  // namespace nibble::ops::cuda
