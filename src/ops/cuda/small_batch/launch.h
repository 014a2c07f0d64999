#pragma once

#include "ops/cuda/small_batch/small_batch.h"

/// Between the checks of small_batch.cpp and the kernels of small_batch.cu.
namespace nibble::ops::cuda {

inline constexpr int kSmallBatchTokens = 32;  // columns of a launch
inline constexpr int kSmallBatchMaxWarps = 8;
inline constexpr int kSmallBatchMaxStages = 8;

struct SmallBatchArguments {
  const std::byte* units;
  const std::int8_t* tables;
  const float* factors;
  const std::int8_t* codes;
  const float* scales;
  const float* bias;
  float* y;
  int n;
  int m;
  int blocks;      // of 128 inputs
  int tiles_each;  // row tiles of a cluster; the first `tiles_more` have one more
  int tiles_more;
  int ldy;
  int scales_each;  // of a token: 1 or one for each block
  int kept;         // portions whose sums a block keeps before its cluster adds them
  int stages;
  int stage_tiles;
  int bf16_scales;
};

void launch_small_batch(const SmallBatchArguments& arguments, CodeKind codes, std::int64_t groups,
                        int digits, const SmallBatchSchedule& schedule, cudaStream_t stream);

}  // namespace nibble::ops::cuda
