#include "ops/cuda/fp8/e4m3_fragments.cuh"
#include "ops/cuda/fp8/fp8_gemm.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

void wgmma_half_from_e4m3(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream) {
  launch_wide<HalfFromE4m3, Scaling::kNone>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
