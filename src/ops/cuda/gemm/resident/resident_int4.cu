#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/resident/launch_resident.cuh"

namespace nibble::ops::cuda {

void resident_int4_by_row(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream) {
  launch_resident<Int4Codes>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
