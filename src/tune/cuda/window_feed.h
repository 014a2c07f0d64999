#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "compress/calibration/window_store.h"
#include "core/threads.h"
#include "device/cuda/event.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "tune/block_task.h"
#include "tune/cuda/training_gpu.h"

namespace nibble::tune::cuda {

/// Hidden states of windows of one size, one below the other; or back to the store.
void read_windows(const compress::WindowStore& store, std::span<const std::int64_t> windows,
                  std::span<float> to, core::ThreadPool& pool);
void write_windows(std::span<const float> from, std::span<const std::int64_t> windows,
                   compress::WindowStore& store, ops::cpu::CpuOps& ops);

/// Brings the inputs and targets of a block's batches to the GPU, while it works on the batch
/// before.
class WindowFeed {
 public:
  /// `task` must outlive this. Windows have so many tokens.
  WindowFeed(const BlockTask& task, std::int64_t tokens, TrainingGpu& gpu, core::ThreadPool& pool);

  struct Batch {
    DeviceMatrix inputs;   // [tokens, hidden]
    const float* targets;  // the same, valid for work that comes before release()
  };
  /// For what the GPU's stream gets from here on. Windows that were not sent are sent now.
  Batch take(std::span<const std::int64_t> windows);
  /// The work that reads the batch is on the stream.
  void release();

  /// Sends windows that take() may be called for next; none: nothing.
  void send(std::span<const std::int64_t> windows);

 private:
  // Inputs, and targets behind them.
  struct Slot {
    std::vector<std::int64_t> windows;
    device::cuda::PinnedBuffer host;
    device::cuda::Buffer device;
    device::cuda::Event arrived;
    device::cuda::Event released;
  };
  Slot& idle() { return slots_[1 - used_]; }

  const BlockTask& task_;
  std::int64_t tokens_;
  TrainingGpu& gpu_;
  core::ThreadPool& pool_;
  device::cuda::Stream copies_;
  std::array<Slot, 2> slots_;
  std::size_t used_ = 0;  // the slot that was taken last
};

}  // namespace nibble::tune::cuda
