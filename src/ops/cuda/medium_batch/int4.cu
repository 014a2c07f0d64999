#include "ops/cuda/medium_batch/launch.cuh"

namespace nibble::ops::cuda {

void medium_batch_int4(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       int digits, bool scale_of_token, cudaStream_t stream) {
  launch_medium_batch<SignedInt4>(arguments, schedule, digits, scale_of_token, stream);
}

bool medium_batch_is_built() {
  // What an empty kernel needs is a few registers. This asks no stream, so that it may be done
  // while work is recorded.
  constexpr int kRegistersOfNothing = 40;
  cudaFuncAttributes attributes{};
  device::cuda::check(
      cudaFuncGetAttributes(&attributes,
                            medium_batch_kernel<MediumBatchShape<SignedInt4, 64, 2, false, 1, 1>>),
      "cudaFuncGetAttributes");
  return attributes.numRegs > kRegistersOfNothing;
}

}  // namespace nibble::ops::cuda
