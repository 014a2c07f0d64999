#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "compress/coding/cuda/coder.h"

/// Kernels of AWQ's searches. All pointers are of the device; matrices are row-major.
namespace nibble::compress::cuda {

/// Ranges that the clip search tries: see clip_search.cpp.
inline constexpr int kClipSteps = 10;
inline constexpr float kClipStep = 1.0f / 20;

/// Both triangles [k, k] of a symmetric matrix from its lower one, in place.
void mirror_lower(float* matrix, std::int64_t k, cudaStream_t stream);

/// errors [rows, k]: w - Q(w s) / s, Q rounding to nearest in groups of `group` inputs.
void scale_rounding_errors(const float* weights, const float* scales, const CoderView& coder,
                           std::int64_t rows, std::int64_t k, std::int64_t group, float* errors,
                           cudaStream_t stream);

/// sums[i] = sum over j of a[i, j] b[i, j]; a and b [rows, k].
void row_products(const float* a, const float* b, std::int64_t rows, std::int64_t k, double* sums,
                  cudaStream_t stream);

/// One group of inputs in the rows of a weight: w(i, j) = weights[i * ld + j], j < width.
struct WeightGroup {
  float* weights = nullptr;
  std::int64_t ld = 0;
  std::int64_t rows = 0;
  std::int64_t width = 0;
};

/// errors [rows, kClipSteps, width]: w - Q(clip(w)) for every range.
void clip_errors(const WeightGroup& group, const CoderView& coder, float* errors,
                 cudaStream_t stream);

/// Clips each row to the range whose errors e have the least e . products; the widest of equals.
void clip_to_best(const WeightGroup& group, const float* errors, const float* products,
                  cudaStream_t stream);

}  // namespace nibble::compress::cuda
