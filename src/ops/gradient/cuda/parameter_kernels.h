#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/elementwise.h"

/// Gradients at biases and norms. All pointers are of the device; matrices are float32, row-major.
/// Nothing waits or allocates, and sums have a fixed order.
namespace nibble::ops::gradient::cuda {

/// to [columns] += the sums of the columns of x [m, columns], whose rows are ldx apart.
void add_column_sums(const float* x, std::int64_t m, std::int64_t columns, std::int64_t ldx,
                     float* to, cudaStream_t stream);

/// Of each row x [m, columns], as a norm sees it: what is subtracted, and what it is multiplied by.
struct RowMoments {
  float mean = 0;
  float inverse = 0;
};
void row_moments(const ops::cuda::NormWeights& norm, const float* x, std::int64_t m,
                 std::int64_t columns, RowMoments* moments, cudaStream_t stream);

/// to [columns] += what rows x [m, columns] and the gradient dy of the norm's output give its
/// weight.
void add_norm_weight_gradient(const float* x, const RowMoments* moments, const float* dy,
                              std::int64_t m, std::int64_t columns, float* to, cudaStream_t stream);

}  // namespace nibble::ops::gradient::cuda
