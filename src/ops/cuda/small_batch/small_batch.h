#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/packed/unit_format.h"

/// Linear layers for few tokens, bound by the bandwidth of memory: y = x W^T from packed weights
/// and integer activations.
///
/// Weights are the left operand of integer tensor instructions, tokens the eight columns of the
/// right one. Activations of 16 bits are two INT8 digits to the base 255 in two columns, so that
/// products are exact and no weight is ever converted to a floating number. Every thread block
/// takes an equal run of units (Stream-K, arXiv 2301.03598); sums that cross blocks are added in a
/// fixed order. How the work is cut depends on the weight alone: a token's result is the same in
/// every batch.
namespace nibble::ops::cuda {

/// Integer activations in lane order: the 128 inputs of a block stand at 32 t + 8 h + 4 e + n, with
/// k and n as in unit_format.h for 8 bits.
struct LaneActivations {
  int digits = 2;                      // rows of codes for each token: 255 * first + second, or one
  const std::int8_t* codes = nullptr;  // [m * digits][blocks * 128]
  const float* scales = nullptr;       // [m][blocks], or [m]: x = scale * code
  bool scale_of_token = false;         // which of the two
};

struct SmallBatchProblem {
  UnitsView weight;
  LaneActivations x;
  std::int64_t m = 0;  // 1 to max_small_batch(digits)
  float* y = nullptr;  // [m][n], rows ldy apart
  std::int64_t ldy = 0;
  const float* bias = nullptr;  // [n] or null
};

/// How a matrix is divided. Results depend on warps and cluster_size in their last bits.
struct SmallBatchSchedule {
  int warps = 8;         // of a thread block, 1 to 8
  int stages = 3;        // copies in flight for each warp, 2 to 8; fewer where they do not fit
  int cluster_size = 1;  // thread blocks that divide the inputs: 1, 2, 4 or 8; 1 before sm_90
  int clusters = 1;      // that divide the rows
};

/// The schedule for a weight of this size on a device of so many multiprocessors.
SmallBatchSchedule small_batch_schedule(const UnitsView& weight, int multiprocessors);

/// The most tokens of one launch.
std::int64_t max_small_batch(int digits);

/// Starts the layer on `stream`. Reads the weight at once and all else after the kernels before it
/// in the stream have ended (dependent_launch.cuh).
void small_batch(const SmallBatchProblem& problem, const SmallBatchSchedule& schedule,
                 cudaStream_t stream);

}  // namespace nibble::ops::cuda
