#include "tune/tuning_device.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compress/calibration/pack_forward.h"
#include "core/memory.h"
#include "ops/gradient/gradient_ops.h"
#include "tune/adamw.h"
#include "tune/cpu_model_trainer.h"
#include "tune/losses.h"
#include "tune/trained_block.h"

namespace nibble::tune {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;

class CpuBlockTrainer final : public BlockTrainer {
 public:
  CpuBlockTrainer(const BlockTask& task, const WindowBatches& windows, const StageOptions& stage,
                  CpuOps& ops)
      : task_(task),
        windows_(windows),
        ops_(ops),
        trained_(task, stage, ops.pool()),
        optimizer_(trained_.parameters, {}, ops.pool()),
        tape_(ops) {
    for (const auto& layer : trained_.layers) {
      layer->add_to(gradients_);
    }
    tape_.set_parameters(&gradients_);
  }

  double loss(std::span<const std::int64_t> windows, double scale, bool learns,
              std::span<const std::int64_t>) override {
    const compress::CalibrationPack pack = windows_.pack(windows);
    const Matrix target = stacked(task_.targets, windows, ops_);
    Matrix x = stacked(task_.inputs, windows, ops_);
    if (!learns) {
      compress::run_pack(ops_, task_.config, task_.norms, trained_.block, pack, {}, x);
      return square_loss(x, target, scale);
    }
    ops::gradient::Variable y = tape_.variable(std::move(x));
    compress::run_pack(tape_, task_.config, task_.norms, trained_.block, pack, {}, y);
    Matrix gradient = ops_.copy(y.value());
    const double loss = square_loss(gradient, target, scale);
    tape_.backward(y, std::move(gradient));
    return loss;
  }

  double step(double loss, double learning_rate) override {
    for (const auto& layer : trained_.layers) {
      layer->pass_back(ops_.pool());
    }
    require_finite(loss, trained_.parameters, steps() + 1);
    const double norm = optimizer_.step(learning_rate);
    for (const auto& layer : trained_.layers) {
      layer->update(ops_.pool());
    }
    return norm;
  }
  std::int64_t steps() const override { return optimizer_.steps(); }

  void keep() override {
    kept_.clear();
    for (const auto& parameter : trained_.parameters) {
      kept_.push_back(parameter->values);
    }
  }

  compress::CompressedBlock result() override {
    for (std::size_t p = 0; p < kept_.size(); ++p) {
      trained_.parameters[p]->values = std::move(kept_[p]);
    }
    return trained_.packed(ops_.pool());
  }

 private:
  const BlockTask& task_;
  const WindowBatches& windows_;
  CpuOps& ops_;
  TrainedBlock trained_;
  AdamW optimizer_;
  ops::gradient::ParameterGradients gradients_;
  ops::gradient::GradientOps tape_;
  std::vector<std::vector<float>> kept_;  // values of parameters
};

class CpuTuningDevice final : public TuningDevice {
 public:
  explicit CpuTuningDevice(CpuOps& ops) : ops_(ops) {}

  // Values, gradients and moments, what the forward pass reads, the original.
  TrainingMemory memory_of_block(const TrainingSize& size) const override {
    return {(AdamW::kBytesPerValue + 8) * size.largest_block + size.block_activations + size.states,
            0};
  }
  // Weights in float32, codes (and what they are trained with), and logits of some rows.
  TrainingMemory memory_of_model(const TrainingSize& size) const override {
    const std::int64_t trained = size.trains_codes ? AdamW::kBytesPerValue : 0;
    return {(6 + trained) * size.all_blocks +
                std::min(size.all_activations, core::available_memory_bytes() / 2) +
                std::int64_t{12} * 256 * size.vocabulary + size.block_activations,
            0};
  }

  std::unique_ptr<BlockTrainer> make_trainer(const BlockTask& task, const WindowBatches& windows,
                                             const StageOptions& stage) override {
    return std::make_unique<CpuBlockTrainer>(task, windows, stage, ops_);
  }

  std::unique_ptr<ModelTrainer> make_model_trainer(const models::Network& compressed,
                                                   const models::Network& teacher,
                                                   const WindowBatches& windows,
                                                   const TuningOptions& options) override {
    return make_cpu_model_trainer(compressed, teacher, windows, options, ops_);
  }

  void advance(const models::NetworkConfig& config, models::NormPlacement norms,
               const models::Block& block, const WindowBatches& windows,
               compress::WindowStore& store) override {
    for (std::size_t window = 0; window < store.size(); ++window) {
      const auto at = static_cast<std::int64_t>(window);
      Matrix x = store.read(window, ops_);
      compress::run_pack(ops_, config, norms, block, windows.pack({&at, 1}), {}, x);
      store.write(window, std::move(x));
    }
  }

 private:
  CpuOps& ops_;
};

}  // namespace

std::unique_ptr<TuningDevice> make_tuning_device(const device::Place& place,
                                                 ops::gradient::ProductPrecision precision,
                                                 CpuOps& ops) {
  if (place.on_gpu()) {
    return cuda::make_cuda_tuning_device(place.index, precision, ops);
  }
  return std::make_unique<CpuTuningDevice>(ops);
}

}  // namespace nibble::tune
