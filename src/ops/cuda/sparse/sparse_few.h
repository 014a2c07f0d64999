#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/small_batch/small_batch.h"
#include "ops/cuda/sparse/sparse_rows.h"

/// Block-sparse rows times few tokens, bound by the bandwidth of memory: y = x W^T from integer
/// activations in lane order (small_batch.h).
///
/// A thread block puts the activations into shared memory, where each block of 16 inputs lies as
/// the weights' bits come out of a word, with its scale. A lane has a block of weights: it takes
/// the zero point off, multiplies four bytes at a time, and adds the product, an exact integer,
/// times both scales to what it has of the row. The lanes of a stream, then the streams of a row
/// are added in a fixed order, which depends on the weight alone: a token's result is the same in
/// every batch.
namespace nibble::ops::cuda {

/// At most max_sparse_tokens() tokens, of max_normed_sparse_rows() the norms.
struct SparseFewProblem : FewTokens {
  const SparseView* weight = nullptr;
  std::int64_t scale_step = 0;  // inputs of a scale of x: 16, 128 or 0, all of a token
};

/// The most tokens of a launch on the current device: 8, 4, 2 or 1; 0 where its shared memory is
/// too small for rows of so many inputs.
int max_sparse_tokens(const SparseView& weight, int digits);

/// The most rows of k inputs whose norm the kernel itself makes, which saves a launch.
std::int64_t max_normed_sparse_rows(std::int64_t k, NormKind kind);

/// Starts the product on `stream`. Reads the weight at once and all else after the kernels before
/// it in the stream have ended (dependent_launch.cuh).
void sparse_few(const SparseFewProblem& problem, cudaStream_t stream);

/// Rows [first, first + count) of a weight as float16, each rounded once: values [count][k].
void widen_rows(const SparseView& weight, std::int64_t first, std::int64_t count,
                core::Fp16* values, cudaStream_t stream);

}  // namespace nibble::ops::cuda
