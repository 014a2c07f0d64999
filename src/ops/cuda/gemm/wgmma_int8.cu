#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

bool wgmma_is_built() {
  // What an empty kernel needs is a few registers. This asks no stream, so that it may be done
  // while work is recorded.
  constexpr int kRegistersOfNothing = 64;
  cudaFuncAttributes attributes{};
  device::cuda::check(
      cudaFuncGetAttributes(&attributes,
                            gemm_wgmma<GemmShape<Int8Codes, 256, 2, 1, Scaling::kByRow>>),
      "cudaFuncGetAttributes");
  return attributes.numRegs > kRegistersOfNothing;
}

void wgmma_int8_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  launch_wide<Int8Codes, Scaling::kByRow>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
