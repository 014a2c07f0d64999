#pragma once

#include "ops/cuda/sparse/sparse_tiles.h"

namespace nibble::ops::cuda {

/// sparse_tiles() of as many tokens as it takes.
void launch_sparse_tiles(const TilesProblem& problem, cudaStream_t stream);

}  // namespace nibble::ops::cuda
