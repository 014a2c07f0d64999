#pragma once

#include "ops/layers.h"

namespace nibble::ops::gradient {

/// dx += the gradient at x, of one row, from that of norm(x). Sums are in double.
void add_norm_gradient(const Norm& norm, const float* x, const float* dy, float* dx);

}  // namespace nibble::ops::gradient
