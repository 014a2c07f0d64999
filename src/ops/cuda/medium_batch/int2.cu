#include "ops/cuda/medium_batch/plane_integers.cuh"

namespace nibble::ops::cuda {

void medium_batch_int2(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream) {
  launch_plane_integers<CodeKind::kInt2>(arguments, schedule, inputs, stream);
}

void medium_batch_int2_with_zeros(const MediumBatchArguments& arguments,
                                  const MediumBatchSchedule& schedule, MediumBatchInputs inputs,
                                  cudaStream_t stream) {
  launch_plane_integers<CodeKind::kInt2WithZeros>(arguments, schedule, inputs, stream);
}

}  // namespace nibble::ops::cuda
