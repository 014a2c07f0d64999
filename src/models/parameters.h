#pragma once

#include <cstdint>

#include "models/network.h"

namespace nibble::models {

/// Trained numbers of a model: of its linear layers, biases, norms and embeddings, each once where
/// they are shared; what an adapter adds is not among them.
std::int64_t parameters_of(const Network& network);

}  // namespace nibble::models
