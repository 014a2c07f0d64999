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
  RowsToRound rows;
  float* y = nullptr;
  const float* bias = nullptr;
  int m = 0;
  int ldy = 0;
  int chunks = 0;       // of 128 inputs
  int scales_each = 1;  // of a token: 1, one or eight for each chunk
  int step_log2 = 0;    // blocks of 16 inputs that have a scale; kIndexBits: all of a token
  int add = 0;
  int stages = 0;  // units on their way for each warp
};

inline constexpr int kSparseBarrierBytes = 64;  // a warp's barriers
inline constexpr int kMostSparseStages = 8;
static_assert(kSparseBarrierBytes >= kMostSparseStages * 8);

/// The shared memory of a thread block with room for so many tokens: the barriers and rings of all
/// warps, inputs, the pieces of rows, and what norms are made of.
struct SparseMemory {
  int warps;
  int stages;
  int digits;
  int tokens;
  int blocks;  // of 16 inputs
  int most_rows;

  constexpr int ring_bytes() const { return stages * static_cast<int>(kSparseUnitBytes); }
  constexpr int rings() const { return (warps * kSparseBarrierBytes + 127) / 128 * 128; }
  constexpr int codes() const { return rings() + warps * ring_bytes(); }
  constexpr int scales() const { return codes() + tokens * digits * blocks * 16; }
  /// With room for the scales of a whole last chunk.
  constexpr int sums() const { return scales() + tokens * (blocks + 8) * 4; }
  /// Pieces of a token; null octets behind the last row leave one more.
  constexpr int pieces() const { return warps * kWarpStreams + most_rows + 1; }
  constexpr int norms() const { return (sums() + tokens * pieces() * 4 + 15) / 16 * 16; }
};

void launch_sparse_few(const SparseArguments& arguments, int digits, int tokens,
                       cudaStream_t stream);

/// The most shared memory of a thread block on the current device.
int sparse_shared_bytes();
/// What norms of the rows take of it.
int normed_bytes(const SparseArguments& arguments);

}  // namespace nibble::ops::cuda
