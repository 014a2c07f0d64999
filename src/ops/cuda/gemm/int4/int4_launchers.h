#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/gemm/gemm_arguments.h"

/// The kernels of gemm_int4.h, by how they scale.
namespace nibble::ops::cuda {

void mma_int4_native_by_row(const GemmPlan& plan, const GemmArguments& arguments,
                            cudaStream_t stream);
void mma_int4_native_by_group(const GemmPlan& plan, const GemmArguments& arguments,
                              cudaStream_t stream);
void mma_int4_native_by_group_of_both(const GemmPlan& plan, const GemmArguments& arguments,
                                      cudaStream_t stream);

}  // namespace nibble::ops::cuda
