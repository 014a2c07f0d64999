#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "compress/block/compressed_block.h"
#include "compress/calibration/window_store.h"
#include "core/json_type.h"
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
  /// those of the step. `next`: the windows of the next call, where they are known.
  virtual double loss(std::span<const std::int64_t> windows, double scale, bool learns,
                      std::span<const std::int64_t> next) = 0;

  /// Takes the optimizer's step, of a loss that was added up over its batches. Returns the norm
  /// that the gradients had. Throws kFailed, naming the step and the layer, where the loss or a
  /// gradient is not finite.
  virtual double step(double loss, double learning_rate) = 0;
  virtual std::int64_t steps() const = 0;  // that were taken

  /// Keeps the parameters as they are: result() is of them. Only after that.
  virtual void keep() = 0;
  virtual compress::CompressedBlock result() = 0;
};

/// A compressed model whose scales, and codes where they have a rate, are trained on a device.
class ModelTrainer {
 public:
  virtual ~ModelTrainer() = default;

  /// What a batch adds to the mean loss over the tokens with a label of so many windows; `learns`:
  /// adds its gradients to those of the step.
  virtual double loss(std::span<const std::int64_t> batch, std::int64_t windows, bool learns) = 0;

  /// As BlockTrainer's.
  virtual double step(double loss, double learning_rate) = 0;
  virtual std::int64_t steps() const = 0;

  /// As save_training() and load_training().
  virtual void save(const std::filesystem::path& state, const core::Json& more) = 0;
  virtual std::optional<core::Json> load(const std::filesystem::path& state,
                                         std::int64_t most_steps) = 0;

  /// The layers as the parameters have them.
  virtual std::map<std::string, formats::PackedWeight> result() = 0;
};

/// What the memory of training depends on.
struct TrainingSize {
  std::int64_t largest_block = 0;  // weights of linear layers
  std::int64_t all_blocks = 0;
  std::int64_t groups = 0;             // of all layers that are trained
  bool trains_codes = false;           // of all blocks together
  std::int64_t block_activations = 0;  // bytes, of a batch
  std::int64_t all_activations = 0;
  std::int64_t states = 0;  // bytes of the hidden states of all windows, twice
  std::int64_t vocabulary = 0;
};

/// Bytes, about.
struct TrainingMemory {
  std::int64_t host = 0;
  std::int64_t gpu = 0;
};

/// Where blocks are trained. Results are the same bits each time on one device.
class TuningDevice {
 public:
  virtual ~TuningDevice() = default;

  /// What BQPO and E2E-OQP take.
  virtual TrainingMemory memory_of_block(const TrainingSize& size) const = 0;
  virtual TrainingMemory memory_of_model(const TrainingSize& size) const = 0;

  /// `task` and `windows` must outlive the trainer.
  virtual std::unique_ptr<BlockTrainer> make_trainer(const BlockTask& task,
                                                     const WindowBatches& windows,
                                                     const StageOptions& stage) = 0;

  /// All must outlive the trainer.
  virtual std::unique_ptr<ModelTrainer> make_model_trainer(const models::Network& compressed,
                                                           const models::Network& teacher,
                                                           const WindowBatches& windows,
                                                           const TuningOptions& options) = 0;

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
