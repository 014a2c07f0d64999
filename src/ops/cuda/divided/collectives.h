#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>

#include "device/cuda/memory.h"
#include "device/cuda/nccl.h"
#include "ops/cuda/divided/lent_memory.h"
#include "ranks/communicator.h"

namespace nibble::ops::cuda {

/// What GPUs of several ranks do together: operations that all of them put on their streams in the
/// same order, and that can be recorded into graphs. Where GPUs of one host reach one another, sums
/// of few numbers, and of two GPUs those of many, are made by kernels that write into the others'
/// memory, and else by NCCL; with NIBBLE_PEER_SUMS=0 always by NCCL. Results are the same bits on
/// all ranks.
class Collectives {
 public:
  /// On the current device; waits until all ranks have come so far. Throws kUsage where NCCL is not
  /// installed, RankEnded, kFailed in NCCL's own words.
  explicit Collectives(std::shared_ptr<ranks::Communicator> ranks);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }

  /// Whether sums of `count` numbers are made by kernels.
  bool by_peers(std::int64_t count) const {
    return by_packets(count) || (peers_ != nullptr && size() == 2 && count % 4 == 0);
  }
  /// How sums are made, for people; why not by kernels where they are not.
  const std::string& how() const { return how_; }

  /// x = the sum of all ranks' x.
  void add(float* x, std::int64_t count, cudaStream_t stream) const;
  /// x += the sum of all ranks' y, where that is by_peers().
  void add_onto(float* x, const float* y, std::int64_t count, cudaStream_t stream) const;
  /// all[r * count + i] = the i-th of rank r; its own are there already.
  void gather(float* all, std::int64_t count, cudaStream_t stream) const;

  /// Waits for the stream. Throws RankEnded when a rank has ended without which it would not end,
  /// and kFailed in NCCL's words; then all that was begun ends, and this is of no more use.
  void wait(cudaStream_t stream);
  /// Ends what is under way on the device, whatever other ranks do.
  void end() noexcept;

 private:
  // Exactly, of float32.
  bool by_packets(std::int64_t count) const {
    return peers_ != nullptr && count <= 2 * peers_->memory().packets;
  }
  void add_by_peers(float* x, const float* y, std::int64_t count, bool adds,
                    cudaStream_t stream) const;
  [[noreturn]] void fail(cudaStream_t stream, const std::string& why);
  void make_communicator();

  std::shared_ptr<ranks::Communicator> ranks_;
  device::cuda::PinnedBuffer ended_;  // PeerMemory::ended
  device::cuda::NcclCommunicator nccl_;
  std::unique_ptr<LentMemory> peers_;  // null: by NCCL
  std::string how_;
};

}  // namespace nibble::ops::cuda
