#pragma once

#include "ops/cuda/two_of_four/kept_products.h"

namespace nibble::ops::cuda {

/// kept_products() of as many tokens as it takes.
void launch_kept_products(const KeptProblem& problem, cudaStream_t stream);

}  // namespace nibble::ops::cuda
