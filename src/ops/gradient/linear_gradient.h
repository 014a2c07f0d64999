#pragma once

#include "core/threads.h"
#include "ops/cpu/matrix.h"
#include "ops/gradient/plain_weights.h"
#include "ops/layers.h"

namespace nibble::ops::gradient {

/// dx [m, k] += dy W, where dy [m, n] holds the outputs of all parts of the set side by side.
/// Refuses what require_plain_weights() does.
void add_linear_gradient(const LinearSet& set, const cpu::Matrix& dy, cpu::Matrix& dx,
                         core::ThreadPool& pool);

}  // namespace nibble::ops::gradient
