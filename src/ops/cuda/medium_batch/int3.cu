#include "ops/cuda/medium_batch/plane_integers.cuh"

namespace nibble::ops::cuda {

void medium_batch_int3(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream) {
  launch_plane_integers<CodeKind::kInt3>(arguments, schedule, inputs, stream);
}

void medium_batch_int3_with_zeros(const MediumBatchArguments& arguments,
                                  const MediumBatchSchedule& schedule, MediumBatchInputs inputs,
                                  cudaStream_t stream) {
  launch_plane_integers<CodeKind::kInt3WithZeros>(arguments, schedule, inputs, stream);
}

}  // namespace nibble::ops::cuda
