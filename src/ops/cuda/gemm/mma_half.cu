#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/gemm_mma.cuh"

namespace nibble::ops::cuda {

void mma_half_from_int4(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  if (arguments.asymmetric) {
    return launch_mma<HalfFromInt4<true>, Scaling::kNone>(arguments, stream);
  }
  launch_mma<HalfFromInt4<false>, Scaling::kNone>(arguments, stream);
}

void mma_half_from_int8(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  if (arguments.asymmetric) {
    return launch_mma<HalfFromInt8<true>, Scaling::kNone>(arguments, stream);
  }
  launch_mma<HalfFromInt8<false>, Scaling::kNone>(arguments, stream);
}

void mma_half_from_book(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  launch_mma<HalfFromBook, Scaling::kNone>(arguments, stream);
}

}  // namespace nibble::ops::cuda
