#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/medium_batch/medium_batch.h"

/// Between the checks of medium_batch.cpp and the kernels.
namespace nibble::ops::cuda {

/// Warpgroups for so many sums and totals of a lane: many registers, few threads.
constexpr int warpgroups_of(int values) {
  return values > 48 ? 2 : 4;
}

/// Columns of the kernel of float16 that takes so many tokens.
constexpr int half_columns_of(std::int64_t tokens) {
  return tokens > 32 ? 64 : 32;
}

/// Tokens of two digits that weights take which take float16, too.
inline constexpr std::int64_t kMostTokensOfDigits = 16;

struct MediumBatchArguments {
  const std::byte* units = nullptr;
  const std::int8_t* tables = nullptr;
  const float* factors = nullptr;  // [rows] or null
  int rows = 0;
  int blocks = 0;      // of 128 inputs
  int tiles_each = 0;  // row tiles of a cluster; the first `tiles_more` have one more
  int tiles_more = 0;
  const void* inputs = nullptr;
  const float* sums = nullptr;  // of float16 inputs, or null
  int sum_stride = 0;           // from block to block
  const float* scales = nullptr;
  int scale_stride = 0;  // from token to token
  int tokens = 0;
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

// Of codes in planes, with activations of 16 bits (medium_batch_input()).
void medium_batch_int3(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream);
void medium_batch_int3_with_zeros(const MediumBatchArguments& arguments,
                                  const MediumBatchSchedule& schedule, MediumBatchInputs inputs,
                                  cudaStream_t stream);
void medium_batch_int2(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                       MediumBatchInputs inputs, cudaStream_t stream);
void medium_batch_int2_with_zeros(const MediumBatchArguments& arguments,
                                  const MediumBatchSchedule& schedule, MediumBatchInputs inputs,
                                  cudaStream_t stream);
void medium_batch_book3(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                        MediumBatchInputs inputs, cudaStream_t stream);
void medium_batch_book2(const MediumBatchArguments& arguments, const MediumBatchSchedule& schedule,
                        MediumBatchInputs inputs, cudaStream_t stream);

/// Whether the current device has code of them.
bool has_medium_batch_code();

}  // namespace nibble::ops::cuda
