#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/dense/dense.h"
#include "ops/cuda/gemm/gemm.h"

namespace nibble::ops::cuda {

/// The most tokens of a launch.
inline constexpr std::int64_t kMostFewDense = 32;

/// Elements by which the rows of a weight must be a multiple: loads take 16 bytes.
inline constexpr std::int64_t kFewDenseInputs = 8;

/// How a launch runs. Results do not depend on it.
struct FewDensePlan {
  int blocks = 1;        // at most so many, which deal out tiles of 16 rows
  int chunks_ahead = 0;  // of 2 KB, which each of a block's 8 warps brings to the L2 cache before
                         // it waits for the kernel before this one
};

/// The fastest on an H100 (docs/experiments/gpu-dense.md): as many blocks as fit at a time.
constexpr FewDensePlan few_dense_plan(int multiprocessors) {
  return {.blocks = 2 * multiprocessors};
}

struct FewDenseProblem {
  DenseView weight;  // F16 or BF16, k a multiple of kFewDenseInputs
  const void* x =
      nullptr;           // [m, ldx] in the weight's type, zeros from k to the next multiple of 64
  std::int64_t ldx = 0;  // a multiple of 64
  std::int64_t m = 0;    // 1 to kMostFewDense
  float* y = nullptr;    // [m, n], rows ldy apart
  std::int64_t ldy = 0;
  const float* bias = nullptr;  // [n] or null
  bool adds = false;            // to what y holds
  HalfOutput half = {};         // where y is null; not of pairs
};

/// y = x W^T + bias with float32 sums, bound by the reading of W, which happens once. A token's
/// result is the same with every number of tokens: the order of a sum depends on k alone.
/// Reads the weight at once, and all else after the kernels before it in the stream have ended
/// (dependent_launch.cuh).
void few_dense(const FewDenseProblem& problem, const FewDensePlan& plan, cudaStream_t stream);

}  // namespace nibble::ops::cuda
