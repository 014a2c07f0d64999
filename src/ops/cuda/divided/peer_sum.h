#pragma once

#include <array>
#include <cstdint>

#include <cuda_runtime_api.h>

/// Sums of a few numbers over the GPUs of a host, each of a process of its own, by one kernel that
/// writes into the others' memory.
namespace nibble::ops::cuda {

inline constexpr int kMostPeers = 8;

/// Two numbers on their way, each with the number of its sum, so that who reads knows whether they
/// have come. Both halves are stored at once; more is not needed.
struct alignas(16) PeerPacket {
  float first;
  std::uint32_t first_of;
  float second;
  std::uint32_t second_of;
};

/// What a rank's kernels know of the memory that ranks have lent one another. Each has, of zeros at
/// first, [2][size][packets] of PeerPacket: what other ranks give for every other sum.
struct PeerMemory {
  std::array<PeerPacket*, kMostPeers> of_rank{};
  int rank = 0;
  int size = 1;
  std::int64_t packets = 0;       // room for each rank's
  std::uint32_t* sums = nullptr;  // [kPeerBlocks] zeros at first: how many each block has done
  const std::int32_t* ended = nullptr;  // of the host: not 0 when no rank is to be awaited any more
};

/// Blocks of the kernel. Each always has the same packets.
inline constexpr int kPeerBlocks = 128;

/// Bytes that each rank lends, for sums of `count` numbers.
std::int64_t peer_bytes(int size, std::int64_t count);

/// x += the sum of all ranks' y, added in the order of ranks, or x = it: the same bits on all ranks
/// where x is. x and y may be one. All ranks must put the same sums on their streams in the same
/// order; a kernel waits until those of the others have begun. count <= 2 * packets. y and x lie at
/// multiples of 8 bytes.
///
/// Packets of a sum lie where those of the one before the last lay. Nobody reads them any more: a
/// rank gives to a sum when its kernel of the one before has ended, for which it needed what this
/// rank gave there, and this rank had ended the one before the last then.
void add_over_peers(const PeerMemory& memory, const float* y, float* x, std::int64_t count,
                    bool adds, cudaStream_t stream);

}  // namespace nibble::ops::cuda
