#include "tune/tune_block.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "tune/block_layers.h"
#include "tune/learning_rate.h"

namespace nibble::tune {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;

// Of an element of the targets, over the windows that are learned.
double mean_square(const BlockTask& task, const WindowBatches& windows, CpuOps& ops) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t window = 0; window < windows.learned(); ++window) {
    const Matrix target = task.targets.read(static_cast<std::size_t>(window), ops);
    for (const float value : target.values()) {
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
    count += target.rows() * target.columns();
  }
  return std::max(sum / static_cast<double>(count), 1e-30);
}

class BlockTuner {
 public:
  BlockTuner(const BlockTask& task, const WindowBatches& windows, const TuningOptions& options,
             TuningDevice& device, CpuOps& ops)
      : number_(task.number),
        windows_(windows),
        options_(options),
        trainer_(device.make_trainer(task, windows, options.blocks)),
        unit_(mean_square(task, windows, ops)),
        numbers_(windows.tokens() * task.config.hidden) {}

  // The steps of an epoch.
  void run(const LearningRate& rate, std::int64_t epoch, LossCurve& curve,
           core::ProgressSink& progress) {
    const auto steps = windows_.epoch(epoch, options_.seed);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const auto batches = windows_.batches(steps[s]);
      double loss = 0;
      for (std::size_t b = 0; b < batches.size(); ++b) {
        std::vector<std::int64_t> next;
        if (b + 1 < batches.size()) {
          next = batches[b + 1];
        } else if (s + 1 < steps.size()) {
          next = windows_.batches(steps[s + 1]).front();
        }
        loss += trainer_->loss(batches[b], scale(std::ssize(steps[s])), true, next);
      }
      const double speed = rate.at(trainer_->steps());
      const double norm = trainer_->step(loss, speed);
      const std::int64_t step = trainer_->steps();
      curve.add({"bqpo", number_, epoch + 1, step, loss, speed, norm});
      progress.update(step, fmt::format("loss {:.5f}", loss));
    }
  }

  // Of the windows that judge.
  double judge() {
    double sum = 0;
    std::int64_t count = 0;
    for (const auto& batch : windows_.judges()) {
      sum += trainer_->loss(batch, scale(std::ssize(batch)), false, {}) *
             static_cast<double>(batch.size());
      count += std::ssize(batch);
    }
    return sum / static_cast<double>(count);
  }

  BlockTrainer& trainer() { return *trainer_; }

 private:
  // Of squares: relative to the targets, as what a batch adds to the mean over so many windows.
  double scale(std::int64_t windows) const {
    return 1.0 / (unit_ * static_cast<double>(windows * numbers_));
  }

  std::int64_t number_;
  const WindowBatches& windows_;
  const TuningOptions& options_;
  std::unique_ptr<BlockTrainer> trainer_;
  double unit_;           // mean square of the targets
  std::int64_t numbers_;  // of a window
};

}  // namespace

compress::CompressedBlock tune_block(const BlockTask& task, const WindowBatches& windows,
                                     const TuningOptions& options, TuningDevice& device,
                                     CpuOps& ops, LossCurve& curve, core::ProgressSink& progress,
                                     BlockGain& gain) {
  BlockTuner tuner(task, windows, options, device, ops);
  const std::int64_t steps = windows.steps() * options.blocks.epochs;
  const LearningRate rate{options.blocks.learning_rate, Decay::kCosine, steps, steps / 20, 0.05};
  progress.begin(fmt::format("block {}: bqpo", task.number), steps);
  gain = {tuner.judge(), 0, 0};
  gain.after = gain.before;
  std::int64_t since = 0;
  while (gain.epochs < options.blocks.epochs && since < options.patience) {
    tuner.run(rate, gain.epochs++, curve, progress);
    const double now = tuner.judge();
    ++since;
    if (now < gain.after) {
      gain.after = now;
      tuner.trainer().keep();
      since = 0;
    }
  }
  progress.update(steps, "");
  progress.end();
  return gain.after < gain.before ? tuner.trainer().result() : packed_layers(task.compressed);
}

}  // namespace nibble::tune
