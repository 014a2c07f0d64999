#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda/memory.h"
#include "ops/cuda/divided/pair_sum.h"
#include "ops/cuda/divided/peer_sum.h"
#include "ranks/communicator.h"

namespace nibble::ops::cuda {

/// Memory of this process's GPU that kernels of the other ranks write to, and theirs.
class LentMemory {
 public:
  /// To be called by all ranks: room for sums of few numbers, of at most `count`, and where there
  /// are two ranks for `blocks` of many (wire_block.h) and inputs of layers. `ended` is as
  /// PeerMemory::ended. Throws RankEnded.
  LentMemory(ranks::Communicator& ranks, std::int64_t count, std::int64_t blocks,
             std::int64_t input_bytes, const std::int32_t* ended);
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  /// Why not all ranks reach one another's memory: they are of several hosts, their GPUs are not
  /// connected, or processes may not share memory. Empty: they do. The same on all ranks.
  const std::string& refusal() const { return refusal_; }
  const PeerMemory& memory() const { return memory_; }
  /// Only where there are two ranks.
  const PairMemory& pair() const { return pair_; }

 private:
  std::string open(int rank, const cudaIpcMemHandle_t& handle);
  void divide(int rank, std::byte* lent);

  device::cuda::Buffer lent_;
  device::cuda::Buffer sums_;
  std::vector<void*> opened_;
  PeerMemory memory_;
  PairMemory pair_;
  std::string refusal_;
};

}  // namespace nibble::ops::cuda
