#pragma once

#include <cstdint>
#include <vector>

#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/two_of_four/kept_products.h"

/// Linear layers over kept weights for many tokens: y = x W^T, by sparse products of warpgroups
/// (gemm/gemm_wgmma.cuh).
namespace nibble::ops::cuda {

/// Whether the current device has them (sm_90a).
bool kept_gemm_runs();

/// The plans that there are for weights of a form on the current device.
std::vector<GemmPlan> kept_gemm_plans(const KeptForm& form);

/// That for so many rows and tokens.
GemmPlan kept_gemm_plan(const KeptForm& form, std::int64_t rows, int tokens);

/// By float16 products. Inputs are in their own order, padded with zeros to a multiple of 128.
/// Weights are rounded to float16 once, sums are float32; a token's result is the same in every
/// batch and by every plan, but other than by kept_products() in the last bits. Throws kFailed for
/// a plan that is none of kept_gemm_plans().
void kept_gemm(const GemmPlan& plan, const KeptView& weight, const HalfInputs& inputs,
               const GemmOutput& output, cudaStream_t stream);

/// By INT8 products, with a scale for each token: the sums and the results of gemm_int8().
void kept_gemm(const GemmPlan& plan, const KeptView& weight, const Int8Inputs& inputs,
               const GemmOutput& output, cudaStream_t stream);

}  // namespace nibble::ops::cuda
