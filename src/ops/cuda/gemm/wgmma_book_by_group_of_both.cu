#include "ops/cuda/gemm/book_fragments.cuh"
#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/launch_wgmma.cuh"

namespace nibble::ops::cuda {

// No tiles of 192 rows: books take registers.
void wgmma_book_by_group_of_both(const GemmPlan& plan, const GemmArguments& arguments,
                                 cudaStream_t stream) {
  if (plan.token_tile == 64) {
    return launch_with_cluster<Int8FromBook, 64, 2, Scaling::kByGroupOfBoth>(plan, arguments,
                                                                             stream);
  }
  launch_with_cluster<Int8FromBook, 128, 2, Scaling::kByGroupOfBoth>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
