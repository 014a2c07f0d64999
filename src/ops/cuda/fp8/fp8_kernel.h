#pragma once

#include "ops/cuda/linear/linear_kernel.h"

namespace nibble::ops::cuda {

/// Layers of E4M3 weights: with float16 activations of few tokens (fp8_few_tokens.h), and for any
/// number of tokens (fp8_gemm.h).
LinearKernel fp8_few_kernel();
LinearKernel fp8_gemm_kernel();

/// Why neither computes layers of this shape.
Refusal fp8_refusal(const LinearShape& shape);

}  // namespace nibble::ops::cuda
