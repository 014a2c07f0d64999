#include "ops/cuda/gemm/book_fragments.cuh"
#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/gemm_mma.cuh"

namespace nibble::ops::cuda {

void mma_half_from_int4(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  with_offset(arguments.offset, [&]<GroupOffset kOffset>() {
    launch_mma<HalfFromInt4<kOffset>, Scaling::kNone>(arguments, stream);
  });
}

void mma_half_from_int8(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  with_offset(arguments.offset, [&]<GroupOffset kOffset>() {
    launch_mma<HalfFromInt8<kOffset>, Scaling::kNone>(arguments, stream);
  });
}

void mma_half_from_book(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  launch_mma<HalfFromBook, Scaling::kNone>(arguments, stream);
}

}  // namespace nibble::ops::cuda
