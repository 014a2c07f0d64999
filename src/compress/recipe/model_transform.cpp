#include "compress/recipe/model_transform.h"

namespace nibble::compress {

models::Network with_ends(models::Network network, const ChangedEnds& ends) {
  network.embeddings.tokens = ends.embedding;
  network.embeddings.positions = ends.positions;
  network.decoder.final_norm = ends.final_norm;
  return with_output(std::move(network), formats::dense_weight(ends.output));
}

models::Network with_output(models::Network network, formats::PackedWeight weight) {
  ops::Linear& output = network.output.parts.front();
  output.name = models::kOutputName;
  output.weight = std::move(weight);
  network.config.tied_output = false;
  return network;
}

}  // namespace nibble::compress
