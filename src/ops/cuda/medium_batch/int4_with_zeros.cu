#include "ops/cuda/medium_batch/launch.cuh"

namespace nibble::ops::cuda {

void medium_batch_int4_with_zeros(const MediumBatchArguments& arguments,
                                  const MediumBatchSchedule& schedule, MediumBatchInputs inputs,
                                  cudaStream_t stream) {
  if (inputs == MediumBatchInputs::kHalf) {
    return launch_half_batch<HalfInt4<true, false>>(arguments, schedule, stream);
  }
  launch_integer_batch<SignedInt4WithZeros, 2 * kMostTokensOfDigits>(arguments, schedule, inputs,
                                                                     stream);
}

}  // namespace nibble::ops::cuda
