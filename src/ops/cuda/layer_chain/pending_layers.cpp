#include "ops/cuda/layer_chain/pending_layers.h"

#include <utility>

namespace nibble::ops::cuda {

bool PendingLayers::takes(const ChainedLayer& layer) {
  const ChainLink link = layer;
  return !refused_ && LayerChain::fits({&link, 1}) && chain_.hold();
}

bool PendingLayers::takes(const ChainedAttention& attention) {
  if (refused_ || waiting_.empty()) {
    return false;
  }
  waiting_.emplace_back(attention);
  const bool fits = LayerChain::fits(waiting_);
  waiting_.pop_back();
  return fits;
}

void PendingLayers::add(const ChainLink& link, cudaStream_t stream) {
  waiting_.push_back(link);
  if (waiting_.size() > 1 && !LayerChain::fits(waiting_)) {
    waiting_.pop_back();
    start(stream);
    waiting_.push_back(link);
  }
}

void PendingLayers::start_waiting(cudaStream_t stream) {
  const std::vector<ChainLink> links = std::exchange(waiting_, {});
  chain_.run(links, stream);
}

}  // namespace nibble::ops::cuda
