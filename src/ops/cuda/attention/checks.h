#pragma once

#include "ops/cuda/attention/attention.h"

/// What attention cannot do; apart from the kernels as elementwise/checks.h is.
namespace nibble::ops::cuda {

/// Throws kUsage for heads that are too large or do not divide.
void check_layer(const AttentionLayer& layer);

/// Whether Head (head_vector.cuh) can read rows of q, k and v, norms and key centres: all begin at
/// multiples of 16 bytes.
bool can_read_heads(const AttentionLayer& layer, const float* qkv);

}  // namespace nibble::ops::cuda
