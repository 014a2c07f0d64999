#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/divided/wire_block.h"
#include "ops/cuda/gemm/gemm.h"

/// Sums of many numbers over two GPUs that write into each other's memory.
namespace nibble::ops::cuda {

/// What a rank's kernels know of the memory that two ranks have lent each other. Each has, of zeros
/// at first, [2][blocks] blocks: what the other gives for every other sum. Who has read a block
/// leaves zeros, so that the next one is seen to come; no flag and no barrier is needed.
struct PairMemory {
  std::array<WireBlock*, 2> of_rank{};
  int rank = 0;
  std::int64_t blocks = 0;
  std::array<std::uint32_t*, 2>
      met{};  // zero at first: the number of the sum behind which a rank is
  std::array<std::byte*, 2> inputs{};  // of layers, which both ranks write (pair_rows.h)
  std::int64_t input_bytes = 0;
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

/// A sum whose parts the products send that make them: this rank's, and where that of the other
/// arrives.
struct PairSum {
  const WireBlock* mine = nullptr;
  WireBlock* other = nullptr;  // two places, for every other sum
  std::int64_t place = 0;      // blocks from one to the other
  const std::uint32_t* number = nullptr;
  const std::int32_t* ended = nullptr;  // PeerMemory::ended

  /// That of the numbers from `first` on, a multiple of 8.
  PairSum from(std::int64_t first) const {
    PairSum rest = *this;
    rest.mine += first / kWireBlock;
    rest.other += first / kWireBlock;
    return rest;
  }
};

/// Begins such a sum, of at most `blocks` of the memory: before the product. Until it is added no
/// other sum may use the memory.
void begin_over_pair(const PairMemory& memory, cudaStream_t stream);

/// In the place of a product that does not send: `values`, as BlockOutput has them, `of_token`
/// numbers of each token, a multiple of 8; from a multiple of 16 bytes on.
void send_over_pair(const float* values, std::int64_t of_token, const BlockOutput& output,
                    cudaStream_t stream);

/// Ends it: x += the sum of both parts, `count` numbers, a multiple of 8. The same bits as by
/// add_over_pair(), which the other rank may call in the place of all this.
void add_begun(const PairSum& sum, float* x, std::int64_t count, cudaStream_t stream);

/// Waits until the other rank comes here behind the same sum, and what it has written before is
/// there.
void meet_over_pair(const PairMemory& memory, cudaStream_t stream);

}  // namespace nibble::ops::cuda
