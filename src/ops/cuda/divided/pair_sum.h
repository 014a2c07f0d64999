#pragma once

#include <array>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/divided/wire_block.h"

/// Sums of many numbers over two GPUs that write into each other's memory.
namespace nibble::ops::cuda {

/// What a rank's kernels know of the memory that two ranks have lent each other. Each has, of zeros
/// at first, [2][blocks] blocks: what the other gives for every other sum. Who has read a block
/// leaves zeros, so that the next one is seen to come; no flag and no barrier is needed.
struct PairMemory {
  std::array<WireBlock*, 2> of_rank{};
  int rank = 0;
  std::int64_t blocks = 0;
  std::uint32_t* sums = nullptr;        // [kPairBlocks] zeros at first: how many there were
  const std::int32_t* ended = nullptr;  // PeerMemory::ended
};

/// Blocks of threads of the kernel.
inline constexpr int kPairBlocks = 264;

/// Bytes that each rank lends.
std::int64_t pair_bytes(std::int64_t blocks);

/// x += the sum of both ranks' y, or x = it, each y rounded as it travels (wire_block.h, of numbers
/// that lie together): the same bits on both ranks where x is. x and y may be one. As
/// add_over_peers() for order, waiting and places that are used again; sums larger than the memory
/// go in several launches. `count` is a multiple of 4, and x and y lie at multiples of 16 bytes.
void add_over_pair(const PairMemory& memory, const float* y, float* x, std::int64_t count,
                   bool adds, cudaStream_t stream);

}  // namespace nibble::ops::cuda
