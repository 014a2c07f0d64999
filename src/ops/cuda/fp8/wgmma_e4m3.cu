#include "ops/cuda/fp8/e4m3_fragments.cuh"
#include "ops/cuda/fp8/fp8_gemm.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

void wgmma_e4m3_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  launch_wide<E4m3Codes, Scaling::kByRow>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
