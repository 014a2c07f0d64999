#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/divided/pair_sum.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/gemm/gemm.h"

namespace nibble::ops::cuda {

/// add_begun() of some rows of x alone, then their norm, made ready for linear layers of both GPUs:
/// `here`, and `there` in the memory of the other one, both with all rows. Each rank does so for
/// its rows (sequence parallelism, arXiv 2205.05198). Columns are a multiple of 8.
void add_begun_norm_rows(const PairSum& sum, float* x, const NormWeights& norm,
                         const InputTarget& here, const InputTarget& there, const TokenRange& rows,
                         std::int64_t columns, cudaStream_t stream);

}  // namespace nibble::ops::cuda
