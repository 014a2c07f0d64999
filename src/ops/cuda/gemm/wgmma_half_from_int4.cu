#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

void wgmma_half_from_int4(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream) {
  with_offset(arguments.offset, [&]<GroupOffset kOffset>() {
    using Codes = HalfFromInt4<kOffset>;
    plan.divides_k ? launch_divided<Codes, Scaling::kNone>(plan, arguments, stream)
                   : launch_tall_or_wide<Codes, Scaling::kNone>(plan, arguments, stream);
  });
}

}  // namespace nibble::ops::cuda
