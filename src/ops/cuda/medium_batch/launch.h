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
  const float* factors;  // [n] or null
  const float* bias;     // [n] or null
  int n;
  int blocks;      // of 128 inputs
  int tiles_each;  // row tiles of a cluster; the first `tiles_more` have one more
  int tiles_more;
  const std::int8_t* codes;
  const float* scales;
  int scale_stride;  // from token to token
  int m;
  float* y;
  int ldy;
};

using MediumBatchLauncher = void (*)(const MediumBatchArguments& arguments,
                                     const MediumBatchSchedule& schedule, int digits,
                                     bool scale_of_token, cudaStream_t stream);
void medium_batch_int4(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       int digits, bool scale_of_token, cudaStream_t stream);
void medium_batch_int4_with_zeros(const MediumBatchArguments& arguments,
                                  const MediumBatchSchedule& schedule, int digits,
                                  bool scale_of_token, cudaStream_t stream);
void medium_batch_int8(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       int digits, bool scale_of_token, cudaStream_t stream);
void medium_batch_book(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       int digits, bool scale_of_token, cudaStream_t stream);

/// Whether this device runs them: they are for sm_90a only.
bool medium_batch_runs();

}  // namespace nibble::ops::cuda
