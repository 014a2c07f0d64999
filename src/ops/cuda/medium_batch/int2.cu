#include "ops/cuda/medium_batch/launch.cuh"
#include "ops/cuda/medium_batch/plane_decoders.cuh"

namespace nibble::ops::cuda {

void medium_batch_int2(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream) {
  constexpr CodeKind kCodes = CodeKind::kInt2;
  if (inputs == MediumBatchInputs::kHalfWithSums) {
    return launch_half_batch<FromPlanes<HalfInt4<false, true>, kCodes>>(arguments, schedule,
                                                                        stream);
  }
  if (inputs == MediumBatchInputs::kHalf) {
    return launch_half_batch<FromPlanes<HalfInt4<false, false>, kCodes>>(arguments, schedule,
                                                                         stream);
  }
  launch_two_digit_batch<FromPlanes<SignedInt4, kCodes>, 2 * kMostTokensOfDigits>(arguments,
                                                                                  schedule, stream);
}

void medium_batch_int2_with_zeros(const MediumBatchArguments& arguments,
                                  const MediumBatchSchedule& schedule, MediumBatchInputs inputs,
                                  cudaStream_t stream) {
  constexpr CodeKind kCodes = CodeKind::kInt2WithZeros;
  if (inputs == MediumBatchInputs::kHalf) {
    return launch_half_batch<FromPlanes<HalfInt4<true, false>, kCodes>>(arguments, schedule,
                                                                        stream);
  }
  launch_two_digit_batch<FromPlanes<SignedInt4WithZeros, kCodes>, 2 * kMostTokensOfDigits>(
      arguments, schedule, stream);
}

}  // namespace nibble::ops::cuda
