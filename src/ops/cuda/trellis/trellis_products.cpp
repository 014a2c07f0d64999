#include "ops/cuda/trellis/trellis_products.h"

#include <utility>

#include "core/error.h"
#include "ops/cuda/trellis/trellis_launch.h"

namespace nibble::ops::cuda {

TrellisWeights::TrellisWeights(const PackedTrellis& packed, std::shared_ptr<WideScratch> scratch)
    : words_(device::cuda::Buffer::of<std::uint32_t>(packed.words)),
      scales_(device::cuda::Buffer::of<float>(packed.scales)),
      view_{words_.as<std::uint32_t>(), scales_.as<float>(),        packed.bits,
            static_cast<int>(packed.n), static_cast<int>(packed.k), packed.pairs},
      wide_(std::move(scratch), packed.n, packed.k) {}

void trellis_products(const TrellisProblem& problem, cudaStream_t stream) {
  core::require(problem.m >= 1 && problem.m <= kMostTrellisTokens, core::ErrorKind::kFailed,
                "{} tokens for a kernel of at most {}", problem.m, kMostTrellisTokens);
  launch_trellis_products(problem, stream);
}

}  // namespace nibble::ops::cuda
