#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "compress/coding/cuda/coder.h"

/// Kernels of the inverse factor and of GPTQ. All pointers are of the device; matrices are
/// row-major.
namespace nibble::compress::cuda {

inline constexpr std::int64_t kGptqBlock = 128;  // inputs between two updates of all later weights

/// The upper triangle in column-major order of the Hessian in processing order, damped (see
/// OrderedHessian): ordered [k, k] from lower [k, k], order [k] and dead [k].
void order_hessian(const float* lower, const std::int32_t* order, const std::uint8_t* dead,
                   double added, std::int64_t k, double* ordered, cudaStream_t stream);

/// upper [k, k] row-major in float32, zero below the diagonal, from the column-major triangle.
void extract_upper(const double* factor, std::int64_t k, float* upper, cudaStream_t stream);

/// ordered [n, k]: weights [n, k] in processing order; dead inputs become 0.
void order_weights(const float* weights, const std::int32_t* order, const std::uint8_t* dead,
                   std::int64_t n, std::int64_t k, float* ordered, cudaStream_t stream);

struct GptqSweep {
  float* weights = nullptr;      // [n, k] in processing order
  const float* upper = nullptr;  // [k, k]
  const std::int32_t* order = nullptr;
  const GroupValues* groups = nullptr;  // [n, row_groups], by input
  std::int64_t row_groups = 0;          // of a row; the tail is the last of them
  std::int64_t group = 0;               // inputs of a group
  std::int64_t head = 0;                // inputs before the tail; k: there is none
  const std::uint8_t* kept = nullptr;   // [n, k] by input, or null: all are kept
  std::uint8_t* codes = nullptr;        // [n, k] by input
  float* error = nullptr;               // [n, kGptqBlock]
  CoderView coder;
  CoderView tail_coder;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

/// Rounds inputs [begin, end), at most kGptqBlock, one after another; each error is made up for by
/// the later ones of them. `error` holds what the others are still to be corrected by.
void gptq_block(const GptqSweep& sweep, std::int64_t begin, std::int64_t end, cudaStream_t stream);

}  // namespace nibble::compress::cuda
