#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "compress/block/compressed_block.h"
#include "compress/calibration/window_store.h"
#include "device/place.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gradient/product_precision.h"
#include "tune/block_task.h"
#include "tune/tuning_options.h"
#include "tune/window_batches.h"

namespace nibble::tune {

/// A block in training on a device.
class BlockTrainer {
 public:
  virtual ~BlockTrainer() = default;

  /// scale |y - target|^2 of what the block makes of these windows; `learns`: adds its gradients to
  /// those of the step.
  virtual double loss(std::span<const std::int64_t> windows, double scale, bool learns) = 0;

  /// Takes the optimizer's step, of a loss that was added up over its batches. Returns the norm
  /// that the gradients had. Throws kFailed, naming the step and the layer, where the loss or a
  /// gradient is not finite.
  virtual double step(double loss, double learning_rate) = 0;
  virtual std::int64_t steps() const = 0;  // that were taken

  /// Keeps the parameters as they are: result() is of them. Only after that.
  virtual void keep() = 0;
  virtual compress::CompressedBlock result() = 0;
};

/// What training of a block takes, in bytes.
struct BlockMemory {
  std::int64_t host = 0;
  std::int64_t gpu = 0;
};

/// Where blocks are trained. Results are the same bits each time on one device.
class TuningDevice {
 public:
  virtual ~TuningDevice() = default;

  /// Of a block with so many weights in its linear layers, with this for a batch's activations;
  /// about, and without the states of windows.
  virtual BlockMemory memory(std::int64_t weights, std::int64_t activations) const = 0;

  /// `task` and `windows` must outlive the trainer.
  virtual std::unique_ptr<BlockTrainer> make_trainer(const BlockTask& task,
                                                     const WindowBatches& windows,
                                                     const StageOptions& stage) = 0;

  /// Moves all windows through a block of dense layers.
  virtual void advance(const models::NetworkConfig& config, models::NormPlacement norms,
                       const models::Block& block, const WindowBatches& windows,
                       compress::WindowStore& store) = 0;
};

/// `ops` must outlive it. On a GPU, throws kUsage where there is none, or this build has no CUDA
/// back end.
std::unique_ptr<TuningDevice> make_tuning_device(const device::Place& place,
                                                 ops::gradient::ProductPrecision precision,
                                                 ops::cpu::CpuOps& ops);

namespace cuda {
std::unique_ptr<TuningDevice> make_cuda_tuning_device(int gpu,
                                                      ops::gradient::ProductPrecision precision,
                                                      ops::cpu::CpuOps& ops);
}

}  // namespace nibble::tune
