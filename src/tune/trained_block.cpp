#include "tune/trained_block.h"

#include "tune/block_layers.h"

namespace nibble::tune {

TrainedBlock::TrainedBlock(const BlockTask& task, const StageOptions& stage, core::ThreadPool& pool)
    : block(task.compressed) {
  const LayerRates rates = layer_rates(stage);
  const auto sets = models::linear_sets(block);
  for (std::size_t s = 0; s < sets.size(); ++s) {
    for (std::size_t p = 0; p < sets[s]->parts.size(); ++p) {
      ops::Linear& layer = sets[s]->parts[p];
      if (formats::is_dense(layer.weight.scheme)) {
        continue;
      }
      std::vector<float> original;
      if (task.original != nullptr) {
        original = decoded(models::linear_sets(*task.original)[s]->parts[p].weight);
      }
      layers.push_back(std::make_unique<TunedLayer>(layer, Trained::kWeights, rates, original,
                                                    parameters, pool));
    }
  }
}

compress::CompressedBlock TrainedBlock::packed(core::ThreadPool& pool) const {
  compress::CompressedBlock result;
  for (const auto& layer : layers) {
    result.layers.emplace(layer->name(), layer->packed(pool));
  }
  return result;
}

}  // namespace nibble::tune
