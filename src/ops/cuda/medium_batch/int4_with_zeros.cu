#include "ops/cuda/medium_batch/launch.cuh"

namespace nibble::ops::cuda {

void medium_batch_int4_with_zeros(const MediumBatchArguments& arguments,
                                  const MediumBatchSchedule& schedule, int digits,
                                  bool scale_of_token, cudaStream_t stream) {
  launch_medium_batch<SignedInt4WithZeros>(arguments, schedule, digits, scale_of_token, stream);
}

}  // namespace nibble::ops::cuda
