#include "ops/cuda/gemm/book_fragments.cuh"
#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

void wgmma_half_from_book(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream) {
  launch_wide<HalfFromBook, Scaling::kNone>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
