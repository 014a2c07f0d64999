#pragma once

#include "ops/cuda/attention/attention.h"

/// What attention cannot do; apart from the kernels as elementwise/checks.h is.
namespace nibble::ops::cuda {

/// Throws kUsage for heads that are too large or do not divide.
void check_layer(const AttentionLayer& layer);

}  // namespace nibble::ops::cuda
