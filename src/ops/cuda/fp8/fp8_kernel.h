#pragma once

#include "ops/cuda/linear/linear_kernel.h"

namespace nibble::ops::cuda {

/// Layers of E4M3 weights, for any number of tokens (fp8_gemm.h).
LinearKernel fp8_gemm_kernel();

}  // namespace nibble::ops::cuda
