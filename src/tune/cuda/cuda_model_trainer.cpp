#include "tune/cuda/cuda_model_trainer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "device/cuda/memory.h"
#include "models/forward.h"
#include "tune/adamw.h"
#include "tune/cuda/device_adamw.h"
#include "tune/cuda/device_layer.h"
#include "tune/cuda/loss_kernels.h"
#include "tune/training_state.h"
#include "tune/tuned_layer.h"

namespace nibble::tune::cuda {
namespace {

using device::cuda::Buffer;

class CudaModelTrainer final : public ModelTrainer {
 public:
  CudaModelTrainer(const models::Network& compressed, const models::Network& teacher,
                   const WindowBatches& windows, const TuningOptions& options, TrainingGpu& gpu,
                   core::ThreadPool& pool)
      : network_(compressed),
        teacher_(teacher),
        windows_(windows),
        loss_{static_cast<float>(options.loss.labels), static_cast<float>(options.loss.logits)},
        gpu_(gpu),
        pool_(pool),
        tape_(gpu.operators()),
        head_tape_(gpu.operators()) {
    make_layers(options.model);
    for (const models::Block& block : network_.decoder.blocks) {
      load_rest(block);
    }
    gpu_.load_ends(network_);
    if (options.loss.logits > 0) {
      gpu_.load_blocks(teacher_);
      gpu_.load_ends(teacher_);
    }
    tape_.set_observer([this](const ops::LinearSet& set, const DeviceMatrix& x,
                              const DeviceMatrix& dy) { add_gradients(set, x, dy); });
  }
  ~CudaModelTrainer() override { gpu_.operators().release(); }

  double loss(std::span<const std::int64_t> batch, std::int64_t windows, bool learns) override {
    const auto labels = static_cast<double>(windows * (windows_.tokens() - 1));
    const compress::CalibrationPack pack = windows_.pack(batch);
    std::vector<DeviceMatrix> inputs;
    DeviceVariable x = embedded(network_, pack);
    for (const models::Block& block : network_.decoder.blocks) {
      if (learns) {
        inputs.push_back(gpu_.operators().copy(x.value()));
      }
      x = passed(network_, block, pack, std::move(x));
    }
    DeviceMatrix gradient = gpu_.operators().matrix(x.rows(), x.columns());
    const double loss = loss_of(x.value(), pack, 1.0 / labels, learns ? &gradient : nullptr);
    for (std::size_t b = network_.decoder.blocks.size(); learns && b-- > 0;) {
      const DeviceVariable begin = tape_.variable(std::move(inputs[b]));
      const DeviceVariable y = run_block(tape_, network_.config, network_.decoder.norms,
                                         network_.decoder.blocks[b], pack, begin);
      tape_.backward(y, std::move(gradient));
      gradient = gpu_.operators().copy(begin.gradient());
    }
    return loss;
  }

  double step(double loss, double learning_rate) override {
    const double norm = optimizer_->step(loss, learning_rate);
    update();
    return norm;
  }
  std::int64_t steps() const override { return optimizer_->steps(); }

  void save(const std::filesystem::path& state, const core::Json& more) override {
    AdamW host(parameters_, {}, pool_);
    optimizer_->give(host);
    save_training(state, parameters_, host, more);
  }
  std::optional<core::Json> load(const std::filesystem::path& state,
                                 std::int64_t most_steps) override {
    AdamW host(parameters_, {}, pool_);
    auto more = load_training(state, most_steps, parameters_, host);
    if (more) {
      optimizer_->take(host);
      update();
    }
    return more;
  }

  std::map<std::string, formats::PackedWeight> result() override {
    AdamW host(parameters_, {}, pool_);
    optimizer_->give(host);
    std::map<std::string, formats::PackedWeight> packed;
    for (const auto& layer : tuned_) {
      packed.emplace(layer->name(), layer->packed(pool_));
    }
    return packed;
  }

 private:
  void make_layers(const StageOptions& stage) {
    const Trained trained = stage.code_rate > 0 ? Trained::kCodesAlone : Trained::kScalesAlone;
    const LayerRates rates = layer_rates(stage);
    for (models::Block& block : network_.decoder.blocks) {
      for (ops::LinearSet* set : models::linear_sets(block)) {
        for (ops::Linear& layer : set->parts) {
          if (formats::has_codes(layer.weight.scheme)) {
            tuned_.push_back(std::make_unique<TunedLayer>(
                layer, trained, rates, std::vector<float>(), parameters_, pool_));
          }
        }
      }
    }
    optimizer_.emplace(parameters_, AdamWOptions(), gpu_.stream());
    for (const auto& layer : tuned_) {
      auto device = std::make_unique<DeviceLayer>(*layer, *optimizer_,
                                                  gpu_.operators().product_type(), gpu_.stream());
      gpu_.operators().place(layer->weight(), device->values());
      layers_.emplace(&layer->weight(), std::move(device));
    }
  }

  // The layers of a block that are not trained.
  void load_rest(const models::Block& block) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      for (const ops::Linear& layer : set->parts) {
        if (!layers_.contains(&layer.weight)) {
          gpu_.operators().load(layer);
        }
      }
    }
  }

  void update() {
    for (const auto& [weight, layer] : layers_) {
      layer->update();
    }
  }

  DeviceVariable embedded(const models::Network& network, const compress::CalibrationPack& pack) {
    const compress::PackBatch read(pack);
    const DeviceVariable x = models::embed(tape_, network, read.batch());
    tape_.forget();
    return x;
  }

  // x behind a block; nothing is kept to go back.
  DeviceVariable passed(const models::Network& network, const models::Block& block,
                        const compress::CalibrationPack& pack, DeviceVariable x) {
    const DeviceVariable y =
        run_block(tape_, network.config, network.decoder.norms, block, pack, std::move(x));
    tape_.forget();
    return y;
  }

  void add_gradients(const ops::LinearSet& set, const DeviceMatrix& x, const DeviceMatrix& dy) {
    const bool is_tuned = std::any_of(set.parts.begin(), set.parts.end(), [&](const auto& part) {
      return layers_.contains(&part.weight);
    });
    if (!is_tuned) {
      return;  // a projection
    }
    const DeviceMatrix slopes = gpu_.operators().weight_slopes(x, dy);
    std::int64_t row = 0;
    for (const ops::Linear& part : set.parts) {
      if (const auto found = layers_.find(&part.weight); found != layers_.end()) {
        found->second->add_scale_gradients(slopes.data() + row * slopes.columns());
      }
      row += part.weight.n;
    }
  }

  DeviceMatrix logits_of(const models::Network& network, const DeviceMatrix& x, std::int64_t first,
                         std::int64_t rows) {
    const DeviceVariable y = models::logits(
        head_tape_, network, head_tape_.variable(gpu_.operators().copy(x, first, rows)));
    head_tape_.forget();
    return gpu_.operators().copy(y.value());
  }

  // Of the states x behind the last block, `scale` times the sum over all labels; `gradient`, where
  // it is wanted, becomes that at x.
  double loss_of(const DeviceMatrix& x, const compress::CalibrationPack& pack, double scale,
                 DeviceMatrix* gradient) {
    const std::vector<std::int32_t> labels = WindowBatches::labels(pack);
    const Buffer device_labels = Buffer::of(std::span<const std::int32_t>(labels));
    const Buffer losses(x.rows() * static_cast<std::int64_t>(sizeof(double)));
    std::optional<DeviceVariable> teacher;
    if (loss_.logits > 0) {
      teacher = embedded(teacher_, pack);
      for (const models::Block& block : teacher_.decoder.blocks) {
        teacher = passed(teacher_, block, pack, *std::move(teacher));
      }
    }
    for (std::int64_t first = 0; first < x.rows(); first += kLogitRows) {
      const std::int64_t rows = std::min(kLogitRows, x.rows() - first);
      DeviceMatrix wanted;
      if (teacher) {
        wanted = logits_of(teacher_, teacher->value(), first, rows);
      }
      const DeviceVariable hidden = head_tape_.variable(gpu_.operators().copy(x, first, rows));
      const DeviceVariable y = models::logits(head_tape_, network_, hidden);
      DeviceMatrix slopes = gpu_.operators().copy(y.value());
      logit_loss(loss_, slopes.data(), teacher ? wanted.data() : nullptr,
                 device_labels.as<std::int32_t>() + first, static_cast<float>(scale), rows,
                 slopes.columns(), losses.as<double>() + first, gpu_.stream());
      if (gradient == nullptr) {
        head_tape_.forget();
        continue;
      }
      head_tape_.backward(y, std::move(slopes));
      gpu_.operators().copy_rows(hidden.gradient(), *gradient, first);
    }
    return scale * sum_of(losses.as<double>(), x.rows(), gpu_.stream());
  }

  models::Network network_;
  const models::Network& teacher_;
  const WindowBatches& windows_;
  LogitShares loss_;
  TrainingGpu& gpu_;
  core::ThreadPool& pool_;
  Parameters parameters_;
  std::vector<std::unique_ptr<TunedLayer>> tuned_;
  std::optional<DeviceAdamW> optimizer_;
  std::map<const formats::PackedWeight*, std::unique_ptr<DeviceLayer>> layers_;
  CudaGradientOps tape_;
  CudaGradientOps head_tape_;
};

}  // namespace

std::unique_ptr<ModelTrainer> make_cuda_model_trainer(const models::Network& compressed,
                                                      const models::Network& teacher,
                                                      const WindowBatches& windows,
                                                      const TuningOptions& options,
                                                      TrainingGpu& gpu, core::ThreadPool& pool) {
  return std::make_unique<CudaModelTrainer>(compressed, teacher, windows, options, gpu, pool);
}

}  // namespace nibble::tune::cuda
