#include <algorithm>
#include <numeric>
#include <vector>

#include "core/threads.h"
#include "device/cuda/memory.h"
#include "tune/cuda/cuda_model_trainer.h"
#include "tune/cuda/device_adamw.h"
#include "tune/cuda/device_layer.h"
#include "tune/cuda/training_gpu.h"
#include "tune/cuda/weight_kernels.h"
#include "tune/cuda/window_feed.h"
#include "tune/trained_block.h"
#include "tune/tuning_device.h"

namespace nibble::tune::cuda {
namespace {

constexpr std::int64_t kTokensAtATime = 8192;  // that move through a block

class CudaBlockTrainer final : public BlockTrainer {
 public:
  CudaBlockTrainer(const BlockTask& task, const WindowBatches& windows, const StageOptions& stage,
                   TrainingGpu& gpu, core::ThreadPool& pool)
      : task_(task),
        windows_(windows),
        gpu_(gpu),
        pool_(pool),
        trained_(task, stage, pool),
        optimizer_(trained_.parameters, {}, gpu.stream()),
        tape_(gpu.operators()),
        feed_(task, windows.tokens(), gpu, pool),
        sums_(kPartialSums * static_cast<std::int64_t>(sizeof(double))) {
    for (const auto& layer : trained_.layers) {
      layers_.push_back(std::make_unique<DeviceLayer>(
          *layer, optimizer_, gpu.operators().product_type(), gpu.stream()));
      gpu.operators().place(layer->weight(), layers_.back()->values());
      gradients_.add(layer->weight(), layers_.back()->gradient());
    }
    for (const ops::LinearSet* set : models::linear_sets(trained_.block)) {
      for (const ops::Linear& layer : set->parts) {
        if (gradients_.of(layer.weight).empty()) {
          gpu.operators().load(layer);  // one that is not trained
        }
      }
    }
    tape_.set_parameters(&gradients_);
  }
  ~CudaBlockTrainer() override { gpu_.operators().release(); }

  double loss(std::span<const std::int64_t> windows, double scale, bool learns,
              std::span<const std::int64_t> next) override {
    WindowFeed::Batch batch = feed_.take(windows);
    const DeviceVariable y =
        run_block(tape_, task_.config, task_.norms, trained_.block, windows_.pack(windows),
                  tape_.variable(std::move(batch.inputs)));
    DeviceMatrix gradient = gpu_.operators().copy(y.value());
    square_loss(gradient.data(), batch.targets, gradient.count(), static_cast<float>(2 * scale),
                sums_.as<double>(), gpu_.stream());
    if (learns) {
      tape_.backward(y, std::move(gradient));
    } else {
      tape_.forget();
    }
    feed_.release();
    feed_.send(next);  // while the GPU works
    return scale * sum_of(sums_.as<double>(), kPartialSums, gpu_.stream());
  }

  double step(double loss, double learning_rate) override {
    for (const auto& layer : layers_) {
      layer->pass_back();
    }
    const double norm = optimizer_.step(loss, learning_rate);
    for (const auto& layer : layers_) {
      layer->update();
    }
    return norm;
  }
  std::int64_t steps() const override { return optimizer_.steps(); }

  void keep() override { optimizer_.keep(); }
  compress::CompressedBlock result() override {
    optimizer_.return_kept();
    return trained_.packed(pool_);
  }

 private:
  const BlockTask& task_;
  const WindowBatches& windows_;
  TrainingGpu& gpu_;
  core::ThreadPool& pool_;
  TrainedBlock trained_;
  DeviceAdamW optimizer_;
  std::vector<std::unique_ptr<DeviceLayer>> layers_;
  ops::gradient::ParameterGradients gradients_;
  CudaGradientOps tape_;
  WindowFeed feed_;
  device::cuda::Buffer sums_;
};

class CudaTuningDevice final : public TuningDevice {
 public:
  CudaTuningDevice(int gpu, ops::gradient::ProductPrecision precision, ops::cpu::CpuOps& ops)
      : ops_(ops), gpu_(gpu, precision, ops) {}

  // On the host what training starts from and ends as, what it starts near, and room for both.
  TrainingMemory memory_of_block(const TrainingSize& size) const override {
    constexpr std::int64_t kHostBytesPerWeight = 16;
    return {kHostBytesPerWeight * size.largest_block + size.states,
            (DeviceAdamW::kBytesPerValue + product_bytes()) * size.largest_block +
                size.block_activations + CudaOperators::kMostScoreBytes};
  }
  // Codes, and the weights of both models; parameters on both sides; logits of some rows.
  TrainingMemory memory_of_model(const TrainingSize& size) const override {
    const std::int64_t trained =
        AdamW::kBytesPerValue * (size.groups + (size.trains_codes ? size.all_blocks : 0));
    return {size.all_blocks / 8 + trained,
            (1 + 2 * product_bytes()) * size.all_blocks + trained + size.block_activations +
                CudaOperators::kMostScoreBytes + 12 * kLogitRows * size.vocabulary};
  }

  std::unique_ptr<BlockTrainer> make_trainer(const BlockTask& task, const WindowBatches& windows,
                                             const StageOptions& stage) override {
    return std::make_unique<CudaBlockTrainer>(task, windows, stage, gpu_, ops_.pool());
  }

  std::unique_ptr<ModelTrainer> make_model_trainer(const models::Network& compressed,
                                                   const models::Network& teacher,
                                                   const WindowBatches& windows,
                                                   const TuningOptions& options) override {
    return make_cuda_model_trainer(compressed, teacher, windows, options, gpu_, ops_.pool());
  }

  void advance(const models::NetworkConfig& config, models::NormPlacement norms,
               const models::Block& block, const WindowBatches& windows,
               compress::WindowStore& store) override {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      gpu_.operators().load(*set);
    }
    CudaGradientOps tape(gpu_.operators());
    device::cuda::PinnedBuffer stage;
    const auto count = static_cast<std::int64_t>(store.size());
    const std::int64_t step = std::max<std::int64_t>(1, kTokensAtATime / windows.tokens());
    for (std::int64_t first = 0; first < count; first += step) {
      std::vector<std::int64_t> some(static_cast<std::size_t>(std::min(step, count - first)));
      std::iota(some.begin(), some.end(), first);
      const std::int64_t rows = windows.tokens() * std::ssize(some);
      const std::span<float> values(stage.room_for<float>(rows * config.hidden),
                                    static_cast<std::size_t>(rows * config.hidden));
      read_windows(store, some, values, ops_.pool());
      const DeviceVariable y =
          run_block(tape, config, norms, block, windows.pack(some),
                    tape.variable(gpu_.operators().uploaded(values, rows, config.hidden)));
      gpu_.operators().download(y.value(), values);
      tape.forget();
      write_windows(values, some, store, ops_);
    }
    gpu_.operators().release();
  }

 private:
  std::int64_t product_bytes() const { return core::size_of(gpu_.operators().product_type()); }

  ops::cpu::CpuOps& ops_;
  TrainingGpu gpu_;
};

}  // namespace

std::unique_ptr<TuningDevice> make_cuda_tuning_device(int gpu,
                                                      ops::gradient::ProductPrecision precision,
                                                      ops::cpu::CpuOps& ops) {
  return std::make_unique<CudaTuningDevice>(gpu, precision, ops);
}

}  // namespace nibble::tune::cuda
