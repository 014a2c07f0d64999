#include "ops/cuda/fp8/e4m3_fragments.cuh"
#include "ops/cuda/fp8/fp8_gemm.h"
#include "ops/cuda/gemm/gemm_mma.cuh"

namespace nibble::ops::cuda {

void mma_half_from_e4m3(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  launch_mma<HalfFromE4m3, Scaling::kNone>(arguments, stream);
}

}  // namespace nibble::ops::cuda
