#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/gemm/gemm.h"

/// Linear layers whose weights and inputs are integers of 4 bits, by products of such integers: the
/// same sums as gemm_int8() has of the same numbers, and so the same bits of y.
namespace nibble::ops::cuda {

/// Inputs [tokens, k_padded / 2] in kInt4Tiles (elementwise/int4_tiles.h); padding stands for 0.
struct Int4Inputs {
  const void* codes = nullptr;  // device, 16-byte aligned
  int tokens = 0;
  std::int64_t row_bytes = 0;     // from token to token: a multiple of 16
  const float* scales = nullptr;  // [i * token_stride + g * group_stride]: of token i and group g
  const std::int32_t* zeros = nullptr;  // like scales: inputs are codes less these. Null: all 0
  int token_stride = 1;
  int group_stride = 0;  // 0: one scale for each token; else one for each 128 inputs too
};

/// Whether the current device has the products: those of compute capability 8. Later ones emulate
/// them, slowly.
bool int4_products_run();

/// y = x W^T, scaled as gemm_int8() does. Weights are integers of 4 bits with or without zeros.
/// Throws kFailed for others, for groups smaller than 128 and where sums may not be exact.
void gemm_int4(const GemmWeights& weights, const Int4Inputs& inputs, const GemmOutput& output,
               cudaStream_t stream);

}  // namespace nibble::ops::cuda
