#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

void wgmma_int4_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  launch_planned<Int4Codes, 256, 2, Scaling::kByRow>(plan, arguments, stream);
}

void wgmma_int4_by_group(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  launch_planned<Int4Codes, 128, 3, Scaling::kByGroup>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
