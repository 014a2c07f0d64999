#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

void wgmma_int8_by_group(const GemmPlan& plan, const GemmArguments& arguments,
                         cudaStream_t stream) {
  launch_by_group<Int8Codes, Scaling::kByGroup>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
