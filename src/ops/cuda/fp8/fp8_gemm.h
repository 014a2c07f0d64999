#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/gemm/gemm_arguments.h"

/// Products of E4M3 weights, a scale for each row, for any number of tokens. Weights lie in units
/// as kBytes.
namespace nibble::ops::cuda {

/// y = x W^T with E4M3 codes for inputs, in tile order, a scale for each token: y = (sum * row
/// scale) * token scale. Warpgroup products of sm_90a alone; they keep about 14 bits of a sum
/// (DeepSeek-V3, arXiv 2412.19437, section 3.3.2). Throws kFailed for other weights and plans.
void fp8_gemm_e4m3(const GemmPlan& plan, const GemmWeights& weights, const Int8Inputs& inputs,
                   const GemmOutput& output, cudaStream_t stream);

/// y = x W^T with float16 inputs, on every device; a weight times its scale is rounded to float16
/// once. Throws kFailed for other weights.
void fp8_gemm_half(const GemmPlan& plan, const GemmWeights& weights, const HalfInputs& inputs,
                   const GemmOutput& output, cudaStream_t stream);

// The kernels (gemm_launchers.h).
void wgmma_e4m3_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void wgmma_half_from_e4m3(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream);
void mma_half_from_e4m3(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);

}  // namespace nibble::ops::cuda
