#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/elementwise.h"

/// post_norm() (elementwise.h) of many short rows: a warp for each, which keeps the norm's weights
/// in registers. The bits are those of the kernel of all rows (row_kernel.cuh).
namespace nibble::ops::cuda {

/// Whether it serves `m` such rows: LayerNorm with a bias, float16, codes of 8 or 4 bits in bytes
/// with one scale for each row, or for all.
bool serves_post_norm_rows(const MatrixView& x, const MatrixView& delta, const NormWeights& norm,
                           const MutableMatrixView& y, const InputTarget& target, std::int64_t m,
                           std::int64_t columns);

/// As post_norm(), of what it serves.
void post_norm_rows(const MatrixView& x, const MatrixView& delta, const NormWeights& norm,
                    const MutableMatrixView& y, const InputTarget& target, std::int64_t m,
                    std::int64_t columns, cudaStream_t stream);

}  // namespace nibble::ops::cuda
