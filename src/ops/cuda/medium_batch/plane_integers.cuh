#pragma once

#include <type_traits>

#include "ops/cuda/medium_batch/launch.cuh"
#include "ops/cuda/medium_batch/plane_decoders.cuh"

namespace nibble::ops::cuda {

/// What medium_batch_int3() and the others of integers in planes launch (launch.h). Only codes
/// without zero points have a kernel of float16 with sums.
template <CodeKind kCodes>
void launch_plane_integers(const MediumBatchArguments& arguments,
                           const MediumBatchSchedule& schedule, MediumBatchInputs inputs,
                           cudaStream_t stream) {
  constexpr bool kZeros = has_zero_points(kCodes);
  if constexpr (!kZeros) {
    if (inputs == MediumBatchInputs::kHalfWithSums) {
      return launch_half_batch<FromPlanes<HalfInt4<false, true>, kCodes>>(arguments, schedule,
                                                                          stream);
    }
  }
  if (inputs == MediumBatchInputs::kHalf) {
    return launch_half_batch<FromPlanes<HalfInt4<kZeros, false>, kCodes>>(arguments, schedule,
                                                                          stream);
  }
  using Digits = std::conditional_t<kZeros, SignedInt4WithZeros, SignedInt4>;
  launch_two_digit_batch<FromPlanes<Digits, kCodes>, 2 * kMostTokensOfDigits>(arguments, schedule,
                                                                              stream);
}

}  // namespace nibble::ops::cuda
