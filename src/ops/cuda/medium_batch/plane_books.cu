#include "ops/cuda/medium_batch/launch.cuh"
#include "ops/cuda/medium_batch/plane_decoders.cuh"

namespace nibble::ops::cuda {

void medium_batch_book3(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                        MediumBatchInputs, cudaStream_t stream) {
  launch_two_digit_batch<FromPlanes<SignedBook, CodeKind::kBook3>, 128>(arguments, schedule,
                                                                        stream);
}

void medium_batch_book2(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                        MediumBatchInputs, cudaStream_t stream) {
  launch_two_digit_batch<FromPlanes<SignedBook, CodeKind::kBook2>, 128>(arguments, schedule,
                                                                        stream);
}

}  // namespace nibble::ops::cuda
