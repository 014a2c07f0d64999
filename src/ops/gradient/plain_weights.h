#pragma once

#include "ops/layers.h"

namespace nibble::ops::gradient {

/// Throws kFailed, naming the layer, when a part of the set does more than multiply its input by
/// its decoded weight: adapters, an online Hadamard, a tail (which reorders the input). Gradients
/// of these are not built.
void require_plain_weights(const LinearSet& set);

}  // namespace nibble::ops::gradient
