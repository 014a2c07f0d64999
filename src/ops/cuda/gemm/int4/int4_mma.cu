#include "ops/cuda/gemm/gemm_mma.cuh"
#include "ops/cuda/gemm/int4/int4_launchers.h"
#include "ops/cuda/gemm/int4/int4_products.cuh"

namespace nibble::ops::cuda {
namespace {

template <Scaling kScaling>
void launch(const GemmArguments& arguments, cudaStream_t stream) {
  if (arguments.offset == GroupOffset::kZero || arguments.input_zeros != nullptr) {
    return launch_mma<NativeInt4<true>, kScaling>(arguments, stream);
  }
  launch_mma<NativeInt4<false>, kScaling>(arguments, stream);
}

}  // namespace

void mma_int4_native_by_row(const GemmPlan&, const GemmArguments& arguments, cudaStream_t stream) {
  launch<Scaling::kByRow>(arguments, stream);
}

void mma_int4_native_by_group(const GemmPlan&, const GemmArguments& arguments,
                              cudaStream_t stream) {
  launch<Scaling::kByGroup>(arguments, stream);
}

void mma_int4_native_by_group_of_both(const GemmPlan&, const GemmArguments& arguments,
                                      cudaStream_t stream) {
  launch<Scaling::kByGroupOfBoth>(arguments, stream);
}

}  // namespace nibble::ops::cuda
