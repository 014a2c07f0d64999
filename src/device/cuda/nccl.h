#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <future>
#include <string>

#include <cuda_runtime_api.h>

namespace nibble::device::cuda {

/// What the processes of one NCCL communicator must share: one of them makes it.
using NcclId = std::array<std::byte, 128>;

/// Both throw kUsage, with what to install, where NCCL cannot be opened: libnccl.so.2, or the file
/// that NIBBLE_NCCL_LIBRARY names. It is opened once.
NcclId make_nccl_id();
std::string nccl_version();  // "2.27.3"

/// A communicator of NCCL: collective operations of several GPUs, each of another process, that all
/// of them put on their streams in the same order. They can be recorded into graphs. Move-only. All
/// throw kFailed with NCCL's own words.
class NcclCommunicator {
 public:
  NcclCommunicator() = default;
  /// On the current device. Waits until all `size` processes call it, however long.
  NcclCommunicator(const NcclId& id, int rank, int size);
  /// Ends it, and waits some seconds for that. Graphs with its operations must be gone.
  ~NcclCommunicator();
  NcclCommunicator(NcclCommunicator&& other) noexcept;
  NcclCommunicator& operator=(NcclCommunicator&& other) noexcept;

  /// x = the sum of all ranks' x, the same bits on all of them.
  void add(float* x, std::int64_t count, cudaStream_t stream) const;
  /// all[r * count + i] = mine[i] of rank r. `mine` may lie in its place of `all`.
  void gather(const float* mine, float* all, std::int64_t count, cudaStream_t stream) const;

  /// Why operations that were begun will not end, such as a process that is gone; empty: nothing is
  /// known against it.
  std::string failure() const;
  /// Lets all that is under way end, of which no result is of use, and makes this of no more use.
  /// Does not wait: NCCL itself does, for every graph that holds a recorded operation, and those
  /// may go behind this. Any thread, while no other one calls anything.
  void end() noexcept;

 private:
  void* communicator_ = nullptr;
  std::future<void> ending_;  // of NCCL's own work behind end()
};

}  // namespace nibble::device::cuda
