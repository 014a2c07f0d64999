#pragma once

#include "ops/cuda/trellis/trellis_products.h"

namespace nibble::ops::cuda {

/// trellis_products() of as many tokens as it takes.
void launch_trellis_products(const TrellisProblem& problem, cudaStream_t stream);

}  // namespace nibble::ops::cuda
