#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

void wgmma_int4_by_group_of_both(const GemmPlan& plan, const GemmArguments& arguments,
                                 cudaStream_t stream) {
  launch_by_group<Int4Codes, Scaling::kByGroupOfBoth>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
