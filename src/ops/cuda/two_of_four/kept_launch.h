#pragma once

#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/two_of_four/kept_products.h"

namespace nibble::ops::cuda {

/// kept_products() of as many tokens as it takes.
void launch_kept_products(const KeptProblem& problem, cudaStream_t stream);

/// The tokens of kept_gemm()'s largest tiles. Three stages of the ring must fit; sums of groups and
/// results both take registers.
constexpr int most_kept_tokens(const KeptForm& form) {
  return form.integers && !form.by_row ? 128 : form.bits == 16 ? 192 : 256;
}

/// The kernels of kept_gemm() for weights of a form.
GemmLauncher kept_gemm_launcher(const KeptForm& form);

}  // namespace nibble::ops::cuda
