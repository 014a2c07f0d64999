#pragma once

#include "ops/cuda/small_batch/launch.h"
#include "ops/cuda/sparse/sparse_rows.h"

/// Between the checks of sparse_few.cpp and the kernels of sparse_few.cu.
namespace nibble::ops::cuda {

inline constexpr int kMostSparseTokens = 8;  // of a launch

struct SparseArguments {
  SparseView weight;
  const std::int8_t* codes = nullptr;
  const float* scales = nullptr;
  RowsToNorm rows;
  float* y = nullptr;
  const float* bias = nullptr;
  int m = 0;
  int ldy = 0;
  int chunks = 0;       // of 128 inputs
  int scales_each = 1;  // of a token: 1, one or eight for each chunk
  int step_log2 = 0;    // blocks of 16 inputs that have a scale; kIndexBits: all of a token
  int add = 0;
};

/// The shared memory of a thread block with room for so many tokens, beside that of norms.
struct SparseMemory {
  int digits;
  int tokens;
  int blocks;  // of 16 inputs
  int streams;
  int most_rows;

  constexpr int code_bytes() const { return tokens * digits * blocks * 16; }
  constexpr int scales() const { return code_bytes(); }
  /// With room for the scales of a whole last chunk.
  constexpr int sums() const { return scales() + tokens * (blocks + 8) * 4; }
  /// Pieces of a token; null octets behind the last row leave one more.
  constexpr int pieces() const { return streams + most_rows + 1; }
  constexpr int norms() const { return (sums() + tokens * pieces() * 4 + 15) / 16 * 16; }
};

void launch_sparse_few(const SparseArguments& arguments, int digits, int tokens,
                       cudaStream_t stream);

/// The most shared memory of a thread block on the current device.
int sparse_shared_bytes();

}  // namespace nibble::ops::cuda
