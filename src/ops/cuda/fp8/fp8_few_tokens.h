#pragma once

#include "ops/cuda/medium_batch/launch.h"

/// Products of E4M3 weights for few tokens, on sm_90a: the kernel of medium_batch.h, whose blocks
/// share the reading of the weights evenly, with a decoder of E4M3 to float16.
namespace nibble::ops::cuda {

/// The most tokens that it takes, and the columns of its products.
inline constexpr int kFp8FewTokens = 16;

/// The kernel (launch.h), for float16 inputs of as many tokens.
void medium_batch_e4m3(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream);

}  // namespace nibble::ops::cuda
