#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/divided/pair_sum.h"
#include "ops/cuda/elementwise/elementwise.h"

namespace nibble::ops::cuda {

/// add_begun() of x [m, columns], then norm(x), made ready for linear layers; columns are a
/// multiple of 8, and x lies at a multiple of 16 bytes.
void add_begun_norm(const PairSum& sum, float* x, const NormWeights& norm,
                    const InputTarget& target, std::int64_t m, std::int64_t columns,
                    cudaStream_t stream);

}  // namespace nibble::ops::cuda
