#include "ops/cuda/medium_batch/launch.cuh"

namespace nibble::ops::cuda {

void medium_batch_book(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream) {
  launch_integer_batch<SignedBook, 128>(arguments, schedule, inputs, stream);
}

}  // namespace nibble::ops::cuda
