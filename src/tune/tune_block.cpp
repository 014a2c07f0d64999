#include "tune/tune_block.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "compress/calibration/pack_forward.h"
#include "core/error.h"
#include "ops/gradient/gradient_ops.h"
#include "tune/adamw.h"
#include "tune/block_layers.h"
#include "tune/learning_rate.h"
#include "tune/tuned_layer.h"

namespace nibble::tune {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::Variable;

class BlockTuner {
 public:
  BlockTuner(const BlockTask& task, const WindowBatches& windows, const TuningOptions& options,
             CpuOps& ops)
      : task_(task),
        windows_(windows),
        options_(options),
        ops_(ops),
        block_(task.compressed),
        tape_(ops) {
    const StageOptions& stage = options.blocks;
    const auto sets = models::linear_sets(block_);
    for (std::size_t s = 0; s < sets.size(); ++s) {
      for (std::size_t p = 0; p < sets[s]->parts.size(); ++p) {
        ops::Linear& layer = sets[s]->parts[p];
        if (!formats::has_codes(layer.weight.scheme)) {
          continue;
        }
        std::vector<float> original;
        if (task.original != nullptr) {
          original = decoded(models::linear_sets(*task.original)[s]->parts[p].weight);
        }
        layers_.push_back(std::make_unique<TunedLayer>(
            layer, Trained::kWeights,
            ScaleRates{static_cast<float>(stage.scale_rate), static_cast<float>(stage.zero_rate)},
            original, parameters_, ops_.pool()));
      }
    }
    for (const auto& layer : layers_) {
      layer->add_to(gradients_);
    }
    tape_.set_parameters(&gradients_);
    unit_ = mean_square();
  }

  // The steps of an epoch.
  void run(AdamW& optimizer, const LearningRate& rate, std::int64_t epoch, LossCurve& curve,
           core::ProgressSink& progress) {
    for (const auto& windows : windows_.epoch(epoch, options_.seed)) {
      double loss = 0;
      for (const auto& batch : windows_.batches(windows)) {
        loss += this->loss(batch, true, std::ssize(windows));
      }
      for (const auto& layer : layers_) {
        layer->pass_back(ops_.pool());
      }
      const std::int64_t step = optimizer.steps();
      require_finite(loss, parameters_, step + 1);
      const double speed = rate.at(step);
      const double norm = optimizer.step(speed);
      update();
      curve.add({"bqpo", task_.number, epoch + 1, step + 1, loss, speed, norm});
      progress.update(step + 1, fmt::format("loss {:.5f}", loss));
    }
  }

  // Of the windows that judge.
  double judge() {
    double sum = 0;
    std::int64_t count = 0;
    for (const auto& batch : windows_.judges()) {
      sum += loss(batch, false, std::ssize(batch)) * static_cast<double>(batch.size());
      count += std::ssize(batch);
    }
    return sum / static_cast<double>(count);
  }

  const Parameters& parameters() const { return parameters_; }

  std::vector<std::vector<float>> values() const {
    std::vector<std::vector<float>> all;
    for (const auto& parameter : parameters_) {
      all.push_back(parameter->values);
    }
    return all;
  }
  void set_values(std::vector<std::vector<float>> all) {
    for (std::size_t p = 0; p < all.size(); ++p) {
      parameters_[p]->values = std::move(all[p]);
    }
    update();
  }

  compress::CompressedBlock result() {
    compress::CompressedBlock block;
    for (const auto& layer : layers_) {
      block.layers.emplace(layer->name(), layer->packed(ops_.pool()));
    }
    return block;
  }

 private:
  void update() {
    for (const auto& layer : layers_) {
      layer->update(ops_.pool());
    }
  }

  // Of an element of the targets, over the windows that are learned.
  double mean_square() {
    double sum = 0;
    std::int64_t count = 0;
    for (std::int64_t window = 0; window < windows_.learned(); ++window) {
      const Matrix target = task_.targets.read(static_cast<std::size_t>(window), ops_);
      for (const float value : target.values()) {
        sum += static_cast<double>(value) * static_cast<double>(value);
      }
      count += target.rows() * target.columns();
    }
    return std::max(sum / static_cast<double>(count), 1e-30);
  }

  // Relative to the targets, as what a batch adds to the mean over so many windows; with its
  // gradients where they are learned.
  double loss(const std::vector<std::int64_t>& batch, bool learns, std::int64_t windows) {
    const compress::CalibrationPack pack = windows_.pack(batch);
    const Matrix target = stacked(task_.targets, batch, ops_);
    Matrix x = stacked(task_.inputs, batch, ops_);
    const double scale =
        1.0 / (unit_ * static_cast<double>(windows * windows_.tokens() * x.columns()));
    if (!learns) {
      compress::run_pack(ops_, task_.config, task_.norms, block_, pack, {}, x);
      return square_loss(x, target, scale);
    }
    Variable y = tape_.variable(std::move(x));
    compress::run_pack(tape_, task_.config, task_.norms, block_, pack, {}, y);
    Matrix gradient = ops_.copy(y.value());
    const double loss = square_loss(gradient, target, scale);
    tape_.backward(y, std::move(gradient));
    return loss;
  }

  const BlockTask& task_;
  const WindowBatches& windows_;
  const TuningOptions& options_;
  CpuOps& ops_;
  models::Block block_;
  Parameters parameters_;
  std::vector<std::unique_ptr<TunedLayer>> layers_;
  ops::gradient::ParameterGradients gradients_;
  GradientOps tape_;
  double unit_ = 1;  // mean square of the targets
};

}  // namespace

compress::CompressedBlock tune_block(const BlockTask& task, const WindowBatches& windows,
                                     const TuningOptions& options, CpuOps& ops, LossCurve& curve,
                                     core::ProgressSink& progress, BlockGain& gain) {
  BlockTuner tuner(task, windows, options, ops);
  AdamW optimizer(tuner.parameters(), {}, ops.pool());
  const std::int64_t steps = windows.steps() * options.blocks.epochs;
  const LearningRate rate{options.blocks.learning_rate, Decay::kCosine, steps, steps / 20, 0.05};
  progress.begin(fmt::format("block {}: bqpo", task.number), steps);
  gain = {tuner.judge(), 0, 0};
  gain.after = gain.before;
  std::vector<std::vector<float>> best_values;
  std::int64_t since = 0;
  while (gain.epochs < options.blocks.epochs && since < options.patience) {
    tuner.run(optimizer, rate, gain.epochs++, curve, progress);
    const double now = tuner.judge();
    ++since;
    if (now < gain.after) {
      gain.after = now;
      best_values = tuner.values();
      since = 0;
    }
  }
  progress.update(steps, "");
  progress.end();
  if (best_values.empty()) {
    return packed_layers(task.compressed);
  }
  tuner.set_values(std::move(best_values));
  return tuner.result();
}

}  // namespace nibble::tune
