#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/medium_batch/medium_batch.h"

/// Between the checks of medium_batch.cpp and the kernels.
namespace nibble::ops::cuda {

struct MediumBatchArguments {
  const std::byte* units;
  const std::int8_t* tables;
  const float* factors;  // [rows] or null
  int rows;
  int blocks;      // of 128 inputs
  int tiles_each;  // row tiles of a cluster; the first `tiles_more` have one more
  int tiles_more;
  const void* inputs;
  const float* sums;  // of float16 inputs, or null
  int sum_stride;     // from block to block
  const float* scales;
  int scale_stride;  // from token to token
  int tokens;
  GemmOutput output;
};

/// Activations, and where their scales come in.
enum class MediumBatchInputs {
  kHalf,
  kHalfWithSums,
  kTwoDigitsByGroup,
  kInt8ByGroup,
  kInt8ByToken
};

using MediumBatchLauncher = void (*)(const MediumBatchArguments& arguments,
                                     const MediumBatchSchedule& schedule, MediumBatchInputs inputs,
                                     cudaStream_t stream);
void medium_batch_int4(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream);
void medium_batch_int4_with_zeros(const MediumBatchArguments& arguments,
                                  const MediumBatchSchedule& schedule, MediumBatchInputs inputs,
                                  cudaStream_t stream);
void medium_batch_int8(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream);
void medium_batch_book(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream);

/// Whether this device runs them: they are for sm_90a only.
bool medium_batch_runs();

}  // namespace nibble::ops::cuda
