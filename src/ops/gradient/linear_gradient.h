#pragma once

#include "core/threads.h"
#include "ops/cpu/matrix.h"
#include "ops/layers.h"

namespace nibble::ops::gradient {

/// Throws kFailed, naming the layer, when a part of the set does more than multiply its input by
/// its decoded weight: adapters, an online Hadamard, a tail (which reorders the input). Gradients
/// of these are not built.
void require_plain_weights(const LinearSet& set);

/// dx [m, k] += dy W, where dy [m, n] holds the outputs of all parts of the set side by side.
/// Refuses what require_plain_weights() does.
void add_linear_gradient(const LinearSet& set, const cpu::Matrix& dy, cpu::Matrix& dx,
                         core::ThreadPool& pool);

}  // namespace nibble::ops::gradient
