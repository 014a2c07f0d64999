#pragma once

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/device_code/reduce.cuh"

namespace nibble::ops::cuda {

__device__ __forceinline__ int lane_index() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

/// x <- x H, or x H^T where kBack, by one warp; x and scratch [dim] lie in shared memory. Additions
/// are in the order of formats::Hadamard.
template <bool kBack>
__device__ void turn_vector(float* x, float* scratch, int dim, const HadamardView& turn) {
  const int width = dim / turn.base;
  for (int half = 1; half < width; half *= 2) {
    for (int i = lane_index(); i < dim / 2; i += kWarp) {
      const int at = i / half * 2 * half + i % half;
      const float a = x[at];
      const float b = x[at + half];
      x[at] = a + b;
      x[at + half] = a - b;
    }
    __syncwarp();
  }
  const float scale = 1.0f / sqrtf(static_cast<float>(dim));
  if (turn.base == 1) {
    for (int i = lane_index(); i < dim; i += kWarp) {
      x[i] *= scale;
    }
    __syncwarp();
    return;
  }
  for (int i = lane_index(); i < dim; i += kWarp) {
    float sum = 0.0f;
    for (int from = 0; from < turn.base; ++from) {
      const float sign =
          turn.signs[kBack ? i / width * turn.base + from : from * turn.base + i / width];
      sum = __fadd_rn(sum, __fmul_rn(sign, x[from * width + i % width]));
    }
    scratch[i] = __fmul_rn(sum, scale);
  }
  __syncwarp();
  for (int i = lane_index(); i < dim; i += kWarp) {
    x[i] = scratch[i];
  }
  __syncwarp();
}

}  // namespace nibble::ops::cuda
