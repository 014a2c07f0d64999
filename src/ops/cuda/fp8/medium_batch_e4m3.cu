#include "ops/cuda/fp8/e4m3_decoder.cuh"
#include "ops/cuda/fp8/fp8_few_tokens.h"
#include "ops/cuda/medium_batch/launch.cuh"

namespace nibble::ops::cuda {

void medium_batch_e4m3(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs, cudaStream_t stream) {
  launch_rows<HalfE4m3, kFp8FewTokens, 1, true>(arguments, schedule, stream);
}

}  // namespace nibble::ops::cuda
