#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

void wgmma_int4_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  launch_integers_by_row<Int4Codes>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
