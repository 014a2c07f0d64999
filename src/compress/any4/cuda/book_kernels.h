#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "compress/coding/cuda/coder.h"

/// Kernels that fit the scales of groups to books (BookSteps). All pointers are of the device.
namespace nibble::compress::cuda {

/// A layer whose books are learned.
struct BookLayer {
  const float* weights = nullptr;       // [n, k]
  const float* mean_squares = nullptr;  // [k]
  float* scales = nullptr;              // [n, groups]
  std::int64_t k = 0;
  std::int64_t group = 0;  // inputs of a group; the last one may be shorter
  std::int64_t groups = 0;
};

/// The scale of a group with which its element of largest magnitude becomes 1, for all n rows.
/// *not_finite becomes 1 when a weight is NaN or infinite.
void fit_largest(const BookLayer& layer, std::int64_t n, int* not_finite, cudaStream_t stream);

/// losses [count, groups] of the rows with the scales that they have.
void group_losses(const BookLayer& layer, const CoderView& coder, const std::int64_t* rows,
                  std::int64_t count, double* losses, cudaStream_t stream);

/// Looks for scales that lose less (GroupSearch::search_from); losses [count, groups] are those of
/// the scales found.
void search_scales(const BookLayer& layer, const CoderView& coder, const std::int64_t* rows,
                   std::int64_t count, int steps, double* losses, cudaStream_t stream);

}  // namespace nibble::compress::cuda
