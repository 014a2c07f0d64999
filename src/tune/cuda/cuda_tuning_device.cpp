#include <algorithm>
#include <numeric>
#include <vector>

#include "core/threads.h"
#include "device/cuda/check.h"
#include "device/cuda/memory.h"
#include "tune/cuda/cuda_scale_trainer.h"
#include "tune/cuda/device_adamw.h"
#include "tune/cuda/device_layer.h"
#include "tune/cuda/training_gpu.h"
#include "tune/cuda/weight_kernels.h"
#include "tune/trained_block.h"
#include "tune/tuning_device.h"

namespace nibble::tune::cuda {
namespace {

using device::cuda::PinnedBuffer;

constexpr std::int64_t kTokensAtATime = 8192;  // that move through a block

/// Hidden states of some windows, one below the other, on their way between a store and the GPU.
class WindowStage {
 public:
  WindowStage(TrainingGpu& gpu, core::ThreadPool& pool) : gpu_(gpu), pool_(pool) {}

  /// The stream copies them behind this call: what was sent before must have arrived.
  DeviceMatrix upload(const compress::WindowStore& store, std::span<const std::int64_t> windows,
                      std::int64_t rows, std::int64_t columns) {
    DeviceMatrix x = gpu_.operators().matrix(rows * std::ssize(windows), columns);
    auto* const stage = buffer_.room_for<float>(x.count());
    pool_.parallel_for(std::ssize(windows), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        store.read(static_cast<std::size_t>(windows[static_cast<std::size_t>(i)]),
                   stage + i * rows * columns);
      }
    });
    device::cuda::check(
        cudaMemcpyAsync(x.data(), stage, static_cast<std::size_t>(x.count()) * sizeof(float),
                        cudaMemcpyHostToDevice, gpu_.stream()),
        "cudaMemcpyAsync to the device");
    return x;
  }

  void download(const DeviceMatrix& x, compress::WindowStore& store,
                std::span<const std::int64_t> windows, ops::cpu::CpuOps& ops) {
    const std::int64_t rows = x.rows() / std::ssize(windows);
    auto* const stage = buffer_.room_for<float>(x.count());
    gpu_.operators().download(x, {stage, static_cast<std::size_t>(x.count())});
    for (std::size_t i = 0; i < windows.size(); ++i) {
      ops::cpu::Matrix one = ops.matrix(rows, x.columns());
      std::copy_n(stage + static_cast<std::int64_t>(i) * rows * x.columns(), rows * x.columns(),
                  one.data());
      store.write(static_cast<std::size_t>(windows[i]), std::move(one));
    }
  }

 private:
  TrainingGpu& gpu_;
  core::ThreadPool& pool_;
  PinnedBuffer buffer_;
};

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
        inputs_(gpu, pool),
        targets_(gpu, pool),
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

  double loss(std::span<const std::int64_t> windows, double scale, bool learns) override {
    const std::int64_t hidden = task_.config.hidden;
    const DeviceMatrix target = targets_.upload(task_.targets, windows, windows_.tokens(), hidden);
    const DeviceVariable y =
        run_block(tape_, task_.config, task_.norms, trained_.block, windows_.pack(windows),
                  tape_.variable(inputs_.upload(task_.inputs, windows, windows_.tokens(), hidden)));
    DeviceMatrix gradient = gpu_.operators().copy(y.value());
    square_loss(gradient.data(), target.data(), gradient.count(), static_cast<float>(2 * scale),
                sums_.as<double>(), gpu_.stream());
    if (learns) {
      tape_.backward(y, std::move(gradient));
    } else {
      tape_.forget();
    }
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
  WindowStage inputs_;
  WindowStage targets_;
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
    return {size.all_blocks / 8 + AdamW::kBytesPerValue * size.groups,
            (1 + 2 * product_bytes()) * size.all_blocks + AdamW::kBytesPerValue * size.groups +
                size.block_activations + CudaOperators::kMostScoreBytes +
                12 * kLogitRows * size.vocabulary};
  }

  std::unique_ptr<BlockTrainer> make_trainer(const BlockTask& task, const WindowBatches& windows,
                                             const StageOptions& stage) override {
    return std::make_unique<CudaBlockTrainer>(task, windows, stage, gpu_, ops_.pool());
  }

  std::unique_ptr<ScaleTrainer> make_scale_trainer(const models::Network& compressed,
                                                   const models::Network& teacher,
                                                   const WindowBatches& windows,
                                                   const TuningOptions& options) override {
    return make_cuda_scale_trainer(compressed, teacher, windows, options, gpu_, ops_.pool());
  }

  void advance(const models::NetworkConfig& config, models::NormPlacement norms,
               const models::Block& block, const WindowBatches& windows,
               compress::WindowStore& store) override {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      gpu_.operators().load(*set);
    }
    CudaGradientOps tape(gpu_.operators());
    WindowStage stage(gpu_, ops_.pool());
    const auto count = static_cast<std::int64_t>(store.size());
    const std::int64_t step = std::max<std::int64_t>(1, kTokensAtATime / windows.tokens());
    for (std::int64_t first = 0; first < count; first += step) {
      std::vector<std::int64_t> some(static_cast<std::size_t>(std::min(step, count - first)));
      std::iota(some.begin(), some.end(), first);
      const DeviceVariable y =
          run_block(tape, config, norms, block, windows.pack(some),
                    tape.variable(stage.upload(store, some, windows.tokens(), config.hidden)));
      stage.download(y.value(), store, some, ops_);
      tape.forget();
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
