#pragma once

#include <string>

#include "models/architecture.h"
#include "models/tensor_names.h"
#include "models/weight_source.h"

namespace nibble::models {

/// Gives `network`, whose embeddings are there, the head of the encoder's task. `root` stands for
/// {} in the names of heads. Throws as build_network().
void build_heads(const Architecture& architecture, const TensorNames& names,
                 const std::string& root, WeightLoader& loader, Network& network);

}  // namespace nibble::models
