#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"
#include "ops/cuda/gemm/plane_fragments.cuh"

namespace nibble::ops::cuda {
namespace {

// Of those tiles that gemm_has_tile() knows for planes.
template <class Codes>
void launch(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  switch (plan.token_tile) {
    case 64:
      return launch_wgmma<Codes, 64, 2, 1, Scaling::kNone>(plan, arguments, stream);
    case 128:
      return launch_wgmma<Codes, 128, 2, 1, Scaling::kNone>(plan, arguments, stream);
    default:
      return launch_wgmma<Codes, 256, 2, 1, Scaling::kNone>(plan, arguments, stream);
  }
}

}  // namespace

void wgmma_half_from_planes(const GemmPlan& plan, const GemmArguments& arguments,
                            cudaStream_t stream) {
  if (arguments.offset == GroupOffset::kZero) {
    return launch<HalfFromPlanes<true>>(plan, arguments, stream);
  }
  launch<HalfFromPlanes<false>>(plan, arguments, stream);
}

void wgmma_half_from_plane_book(const GemmPlan& plan, const GemmArguments& arguments,
                                cudaStream_t stream) {
  launch<HalfFromPlaneBook>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
