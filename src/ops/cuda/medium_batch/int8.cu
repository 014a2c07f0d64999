#include "ops/cuda/medium_batch/launch.cuh"

namespace nibble::ops::cuda {

void medium_batch_int8(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       int digits, bool scale_of_token, cudaStream_t stream) {
  launch_medium_batch<SignedInt8>(arguments, schedule, digits, scale_of_token, stream);
}

}  // namespace nibble::ops::cuda
