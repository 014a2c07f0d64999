#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/gemm_mma.cuh"
#include "ops/cuda/gemm/plane_fragments.cuh"

namespace nibble::ops::cuda {

void mma_half_from_planes(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  if (arguments.offset == GroupOffset::kZero) {
    return launch_mma<HalfFromPlanes<true>, Scaling::kNone>(arguments, stream);
  }
  launch_mma<HalfFromPlanes<false>, Scaling::kNone>(arguments, stream);
}

void mma_half_from_plane_book(const GemmPlan&, const GemmArguments& arguments,
                              cudaStream_t stream) {
  launch_mma<HalfFromPlaneBook, Scaling::kNone>(arguments, stream);
}

}  // namespace nibble::ops::cuda
