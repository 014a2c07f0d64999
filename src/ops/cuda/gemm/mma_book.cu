#include "ops/cuda/gemm/book_fragments.cuh"
#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/gemm_mma.cuh"

namespace nibble::ops::cuda {

void mma_book_by_group_of_both(const GemmPlan&, const GemmArguments& arguments,
                               cudaStream_t stream) {
  launch_mma<Int8FromBook, Scaling::kByGroupOfBoth>(arguments, stream);
}

}  // namespace nibble::ops::cuda
