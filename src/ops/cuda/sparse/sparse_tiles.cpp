#include "ops/cuda/sparse/sparse_tiles.h"

#include <utility>

#include "core/error.h"
#include "ops/cuda/sparse/sparse_tiles_launch.h"

namespace nibble::ops::cuda {

SparseTiles::SparseTiles(const PackedTiles& packed, std::shared_ptr<WideScratch> scratch)
    : units_(device::cuda::Buffer::of<std::byte>(packed.units)),
      first_units_(device::cuda::Buffer::of<std::int32_t>(packed.first_units)),
      wide_(std::move(scratch), packed.n, packed.k) {
  view_ = {units_.data(), first_units_.as<std::int32_t>(), static_cast<int>(packed.n),
           static_cast<int>(packed.k), packed.pairs};
}

void sparse_tiles(const TilesProblem& problem, cudaStream_t stream) {
  core::require(problem.m >= 1 && problem.m <= kMostTileTokens, core::ErrorKind::kFailed,
                "{} tokens for a kernel of at most {}", problem.m, kMostTileTokens);
  launch_sparse_tiles(problem, stream);
}

}  // namespace nibble::ops::cuda
