#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/gemm_mma.cuh"

namespace nibble::ops::cuda {

void mma_int4_by_row(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  launch_mma<Int4Codes, Scaling::kByRow>(arguments, stream);
}

void mma_int4_by_group(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  launch_mma<Int4Codes, Scaling::kByGroup>(arguments, stream);
}

void mma_int4_by_group_of_both(const GemmPlan&, const GemmArguments& arguments,
                               cudaStream_t stream) {
  launch_mma<Int4Codes, Scaling::kByGroupOfBoth>(arguments, stream);
}

}  // namespace nibble::ops::cuda
