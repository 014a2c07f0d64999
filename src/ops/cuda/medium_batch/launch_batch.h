#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/medium_batch/launch.h"

namespace nibble::ops::cuda {

/// y = x W^T by a kernel of this or another folder: checks what all of them need, fills in the
/// arguments, and launches. Throws kFailed.
void launch_medium_batch(MediumBatchLauncher launcher, const MediumBatchProblem& problem,
                         const MediumBatchSchedule& schedule, cudaStream_t stream);

/// Whether a kernel of float16 inputs with so many columns leaves a thread both rows of a pair.
bool half_batch_gates(const MediumBatchSchedule& schedule, int columns);

}  // namespace nibble::ops::cuda
