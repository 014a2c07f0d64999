#include "ops/cuda/device_code/sm90a.cuh"
#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

bool wgmma_runs() {
  return runs_for_sm90a(gemm_wgmma<GemmShape<Int8Codes, 256, 2, 1, Scaling::kByRow>>);
}

void wgmma_int8_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  launch_integers_by_row<Int8Codes>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
