#pragma once

#include <vector>

#include "ops/cuda/layer_chain/layer_chain.h"

namespace nibble::ops::cuda {

/// Layers and attentions of one token that operators have been asked for and that no stream has
/// yet: they wait for others that read what they write, and start together before anything else
/// does.
class PendingLayers {
 public:
  /// From here on takes none.
  void refuse() { refused_ = true; }

  /// Whether it takes such a layer, alone or behind those that wait.
  bool takes(const ChainedLayer& layer);
  /// Whether it takes such an attention, behind those that wait.
  bool takes(const ChainedAttention& attention);
  /// Lets one wait, which takes() says. Starts those before it which it does not continue.
  void add(const ChainLink& link, cudaStream_t stream);
  /// Starts all that wait.
  void start(cudaStream_t stream) {
    if (!waiting_.empty()) {
      start_waiting(stream);
    }
  }

 private:
  void start_waiting(cudaStream_t stream);

  LayerChain chain_;
  std::vector<ChainLink> waiting_;
  bool refused_ = false;
};

}  // namespace nibble::ops::cuda
