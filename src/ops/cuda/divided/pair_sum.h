#pragma once

#include <array>
#include <cstdint>

#include <cuda_runtime_api.h>

/// Sums of many numbers over two GPUs that write into each other's memory.
namespace nibble::ops::cuda {

/// Numbers of a tile, which travels as a whole in the form of wire_float.h.
inline constexpr std::int64_t kTileNumbers = 8192;
inline constexpr std::int64_t kTileBytes = kTileNumbers * 3;

/// What a rank's kernels know of the memory that two ranks have lent each other. Each has, for what
/// the other gives, [2][tiles] tiles, and behind them [2][tiles] numbers of sums, zeros at first,
/// that say for which sum a tile is there.
struct PairMemory {
  std::array<std::byte*, 2> of_rank{};
  int rank = 0;
  std::int64_t tiles = 0;
  std::uint32_t* sums = nullptr;  // [kPairBlocks] zeros at first: how many each block has done
  const std::int32_t* ended = nullptr;  // PeerMemory::ended
};

/// Blocks of the kernel. Each always has the same tiles.
inline constexpr int kPairBlocks = 256;

/// Bytes that each rank lends.
std::int64_t pair_bytes(std::int64_t tiles);

/// x += the sum of both ranks' y, or x = it, each y rounded as it travels: the same bits on both
/// ranks where x is. x and y may be one. As add_over_peers() for order, waiting and places that are
/// used again; sums larger than the memory go in several launches. `count` is a multiple of 4, and
/// x and y lie at multiples of 16 bytes.
void add_over_pair(const PairMemory& memory, const float* y, float* x, std::int64_t count,
                   bool adds, cudaStream_t stream);

}  // namespace nibble::ops::cuda
