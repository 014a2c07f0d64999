#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>

#include "device/cuda/memory.h"
#include "device/cuda/nccl.h"
#include "ops/cuda/divided/lent_memory.h"
#include "ops/cuda/gemm/gemm.h"
#include "ranks/communicator.h"

namespace nibble::ops::cuda {

/// What GPUs of several ranks do together: operations that all of them put on their streams in the
/// same order, and that can be recorded into graphs. Where GPUs of one host reach one another, sums
/// of few numbers, and of two GPUs those of many, are made by kernels that write into the others'
/// memory, and else by NCCL; with NIBBLE_PEER_SUMS=0 always by NCCL. Parts of those of many may
/// also be sent by the products that make them, but for NIBBLE_PEER_SUMS=kernels. Results are the
/// same bits on all ranks.
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
  /// Whether a product can send its part of a sum of `count` numbers: begin_sum() and end_sum().
  bool by_products(std::int64_t count) const;
  /// How sums are made, for people; why not by kernels where they are not.
  const std::string& how() const { return how_; }

  /// x = the sum of all ranks' x.
  void add(float* x, std::int64_t count, cudaStream_t stream) const;
  /// x += the sum of all ranks' y, where that is by_peers().
  void add_onto(float* x, const float* y, std::int64_t count, cudaStream_t stream) const;
  /// Whether each rank may make half of the rows of a sum of so many tokens, and their norms for
  /// both: then all ranks must begin and end all such sums alike.
  bool divides_rows(std::int64_t tokens) const;
  /// The halves, by rank: the first may have a row more.
  static std::array<TokenRange, 2> halves_of(std::int64_t tokens);
  TokenRange own_rows(std::int64_t tokens) const {
    return halves_of(tokens)[static_cast<std::size_t>(rank())];
  }
  /// Begins a sum, by_products(), of so many tokens, and says where this rank's product writes its
  /// part, which also goes to `mine` on the device. Where rows are not divided, other ranks may
  /// call add_onto() for this and what ends it.
  BlockOutput begin_sum(WireBlock* mine, std::int64_t tokens, bool divided, cudaStream_t stream);
  /// What the kernel behind the product adds (pair_sum.h, pair_norm.h, pair_rows.h). No other sum
  /// comes between.
  PairSum end_sum(const WireBlock* mine);
  /// Memory for `bytes` of an input that both ranks make, of this rank and of the other one; null
  /// where there is less. Ranks are done with the last one when both have begun another sum.
  struct SharedInput {
    std::byte* here = nullptr;
    std::byte* there = nullptr;
  };
  SharedInput shared_input(std::int64_t bytes) const;
  /// Waits, on the stream, until the other rank has come here behind the same sum.
  void meet_on(cudaStream_t stream) const;
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
  bool all_alike() const;

  std::shared_ptr<ranks::Communicator> ranks_;
  device::cuda::PinnedBuffer ended_;  // PeerMemory::ended
  device::cuda::NcclCommunicator nccl_;
  std::unique_ptr<LentMemory> peers_;  // null: by NCCL
  std::string how_;
  bool products_send_ = false;
  bool divides_rows_ = false;
  bool begun_ = false;  // a sum that has yet to be ended
};

}  // namespace nibble::ops::cuda
