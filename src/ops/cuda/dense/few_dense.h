#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/dense/dense.h"

namespace nibble::ops::cuda {

/// The most tokens of a launch.
inline constexpr std::int64_t kMostFewDense = 32;

/// Elements by which the rows of a weight must be a multiple: loads take 16 bytes.
inline constexpr std::int64_t kFewDenseInputs = 8;

/// How a weight is divided among the warps of the device. Inputs are cut into k_slices() runs,
/// whose sums are added in their order: results depend on how many there are, in their last bits.
struct FewDensePlan {
  int row_warps = 4;      // of a block's 8, each with 16 rows; the others have other inputs
  int cluster = 1;        // blocks that share rows and divide the inputs: 1, 2 or 4
  bool clusters = false;  // whether there may be some
  int k_slices() const { return 8 / row_warps * cluster; }
};

/// The plan for a weight [n, k] on a device of so many multiprocessors; `clusters`: whether blocks
/// can read each other's shared memory (sm_90 and later).
FewDensePlan plan_few_dense(std::int64_t n, int multiprocessors, bool clusters);

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
};

/// y = x W^T + bias with float32 sums, bound by the reading of W, which happens once. A token's
/// result is the same with every number of tokens. Reads the weight at once and all else after the
/// kernels before it in the stream have ended (dependent_launch.cuh).
void few_dense(const FewDenseProblem& problem, const FewDensePlan& plan, cudaStream_t stream);

}  // namespace nibble::ops::cuda
