#include "ops/cuda/device_code/sm90a.cuh"
#include "ops/cuda/medium_batch/launch.cuh"

namespace nibble::ops::cuda {

void medium_batch_int4(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       int digits, bool scale_of_token, cudaStream_t stream) {
  launch_medium_batch<SignedInt4>(arguments, schedule, digits, scale_of_token, stream);
}

bool medium_batch_runs() {
  return runs_for_sm90a(medium_batch_kernel<MediumBatchShape<SignedInt4, 64, 2, false, 1, 1>>);
}

}  // namespace nibble::ops::cuda
