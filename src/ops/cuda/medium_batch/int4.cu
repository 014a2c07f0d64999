#include "ops/cuda/device_code/sm90a.cuh"
#include "ops/cuda/medium_batch/launch.cuh"

namespace nibble::ops::cuda {

void medium_batch_int4(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream) {
  if (inputs == MediumBatchInputs::kHalfWithSums) {
    return launch_half_batch<HalfInt4<false, true>>(arguments, schedule, stream);
  }
  if (inputs == MediumBatchInputs::kHalf) {
    return launch_half_batch<HalfInt4<false, false>>(arguments, schedule, stream);
  }
  launch_integer_batch<SignedInt4, 2 * kMostTokensOfDigits>(arguments, schedule, inputs, stream);
}

bool has_medium_batch_code() {
  return runs_for_sm90a(medium_batch_kernel<MediumBatchShape<SignedInt4, 32, 1, false, 1, 1>>);
}

}  // namespace nibble::ops::cuda
