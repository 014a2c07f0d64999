#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/gemm_mma.cuh"

namespace nibble::ops::cuda {

void mma_int8_by_row(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  launch_mma<Int8Codes, Scaling::kByRow>(arguments, stream);
}

void mma_int8_by_group(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  launch_mma<Int8Codes, Scaling::kByGroup>(arguments, stream);
}

}  // namespace nibble::ops::cuda
