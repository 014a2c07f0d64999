#include "ops/cuda/two_of_four/kept_products.h"

#include "core/error.h"
#include "ops/cuda/two_of_four/kept_launch.h"

namespace nibble::ops::cuda {

KeptWeights::KeptWeights(const PackedKept& packed)
    : units_(device::cuda::Buffer::of<std::byte>(packed.units)),
      view_{units_.data(), packed.form, static_cast<int>(packed.n), static_cast<int>(packed.k)} {}

void kept_products(const KeptProblem& problem, cudaStream_t stream) {
  core::require(problem.m >= 1 && problem.m <= kMostKeptTokens, core::ErrorKind::kFailed,
                "{} tokens for a kernel of at most {}", problem.m, kMostKeptTokens);
  launch_kept_products(problem, stream);
}

}  // namespace nibble::ops::cuda
