#include "tune/tune_scales.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compress/calibration/pack_forward.h"
#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "io/file_descriptor.h"
#include "models/forward.h"
#include "ops/gradient/gradient_ops.h"
#include "tune/activation_bytes.h"
#include "tune/adamw.h"
#include "tune/learning_rate.h"
#include "tune/training_state.h"
#include "tune/tuned_layer.h"

namespace nibble::tune {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::Variable;

constexpr std::int64_t kLogitRows = 256;  // of logits that are held at a time

class ScaleTuner {
 public:
  ScaleTuner(const models::Network& compressed, const models::Network& teacher,
             const WindowBatches& windows, const TuningOptions& options, CpuOps& ops)
      : network_(compressed),
        teacher_(teacher),
        windows_(windows),
        options_(options),
        ops_(ops),
        tape_(ops),
        head_tape_(ops) {
    const StageOptions& stage = options.model;
    const ScaleRates rates{static_cast<float>(stage.scale_rate),
                           static_cast<float>(stage.zero_rate)};
    for (models::Block& block : network_.decoder.blocks) {
      for (ops::LinearSet* set : models::linear_sets(block)) {
        auto& layers = layers_[set->id];
        for (ops::Linear& layer : set->parts) {
          const bool is_tuned = formats::has_codes(layer.weight.scheme);
          layers.push_back(is_tuned ? std::make_unique<TunedLayer>(layer, Trained::kScales, rates,
                                                                   std::vector<float>(),
                                                                   parameters_, ops_.pool())
                                    : nullptr);
        }
      }
    }
    tape_.set_observer([this](const ops::LinearSet& set, const Matrix& x, const Matrix& dy) {
      add_gradients(set, x, dy);
    });
    const std::int64_t tokens = windows.tokens() * options.batch;
    const std::int64_t memory =
        options.memory > 0 ? options.memory : core::available_memory_bytes() / 2;
    keeps_all_ = activation_bytes(network_.decoder, tokens) < memory;
  }

  const Parameters& parameters() const { return parameters_; }

  void update() {
    for (const auto& [id, layers] : layers_) {
      for (const auto& layer : layers) {
        if (layer) {
          layer->update(ops_.pool());
        }
      }
    }
  }

  // What a batch adds to the mean over the tokens of so many windows that have a label, with its
  // gradients where they are learned.
  double loss(const std::vector<std::int64_t>& batch, bool learns, std::int64_t windows) {
    const auto labels = static_cast<double>(windows * (windows_.tokens() - 1));
    const compress::CalibrationPack pack = windows_.pack(batch);
    const compress::PackBatch read(pack);
    if (!learns) {
      const Matrix x = models::hidden_states(ops_, network_, read.batch());
      return loss_of(x, pack, labels, nullptr);
    }
    if (keeps_all_) {
      const Variable y = models::hidden_states(tape_, network_, read.batch());
      Matrix gradient = ops_.matrix(y.rows(), y.columns());
      const double loss = loss_of(y.value(), pack, labels, &gradient);
      tape_.backward(y, std::move(gradient));
      return loss;
    }
    return loss_by_blocks(pack, labels);
  }

  double judge() {
    double sum = 0;
    std::int64_t count = 0;
    for (const auto& batch : windows_.judges()) {
      sum += loss(batch, false, std::ssize(batch)) * static_cast<double>(batch.size());
      count += std::ssize(batch);
    }
    return sum / static_cast<double>(count);
  }

  std::map<std::string, formats::PackedWeight> result() {
    std::map<std::string, formats::PackedWeight> packed;
    for (const auto& [id, layers] : layers_) {
      for (const auto& layer : layers) {
        if (layer) {
          packed.emplace(layer->name(), layer->packed(ops_.pool()));
        }
      }
    }
    return packed;
  }

 private:
  void add_gradients(const ops::LinearSet& set, const Matrix& x, const Matrix& dy) {
    const auto found = layers_.find(set.id);
    if (found == layers_.end()) {
      return;  // a projection
    }
    std::int64_t column = 0;
    for (std::size_t p = 0; p < set.parts.size(); ++p) {
      if (found->second[p]) {
        found->second[p]->add_scale_gradients(x.data(), dy.data() + column, x.rows(), dy.columns(),
                                              ops_.pool());
      }
      column += set.parts[p].weight.n;
    }
  }

  // Only the inputs of blocks are kept.
  double loss_by_blocks(const compress::CalibrationPack& pack, double count) {
    const auto& config = network_.config;
    const models::Stack& stack = network_.decoder;
    const compress::PackBatch read(pack);
    Matrix x = models::embed(ops_, network_, read.batch());
    std::vector<Matrix> inputs;
    for (const models::Block& block : stack.blocks) {
      inputs.push_back(ops_.copy(x));
      compress::run_pack(ops_, config, stack.norms, block, pack, {}, x);
    }
    Matrix gradient = ops_.matrix(x.rows(), x.columns());
    const double loss = loss_of(x, pack, count, &gradient);
    for (std::size_t b = stack.blocks.size(); b-- > 0;) {
      const Variable begin = tape_.variable(std::move(inputs[b]));
      Variable y = begin;
      compress::run_pack(tape_, config, stack.norms, stack.blocks[b], pack, {}, y);
      tape_.backward(y, std::move(gradient));
      gradient = ops_.copy(begin.gradient());
    }
    return loss;
  }

  // Of the states x behind the last block, a share of a mean over `count` labels; `gradient`, where
  // it is wanted, becomes that at x.
  double loss_of(const Matrix& x, const compress::CalibrationPack& pack, double count,
                 Matrix* gradient) {
    const std::vector<std::int32_t> labels = WindowBatches::labels(pack);
    Matrix teacher;
    if (options_.loss.logits > 0) {
      teacher = models::hidden_states(ops_, teacher_, compress::PackBatch(pack).batch());
    }
    double sum = 0;
    for (std::int64_t first = 0; first < x.rows(); first += kLogitRows) {
      const std::int64_t rows = std::min(kLogitRows, x.rows() - first);
      const auto own_labels = std::span(labels).subspan(static_cast<std::size_t>(first),
                                                        static_cast<std::size_t>(rows));
      Matrix wanted;
      if (!teacher.empty()) {
        wanted = models::logits(ops_, teacher_, ops_.copy(teacher, first, rows));
      }
      if (gradient == nullptr) {
        Matrix logits = models::logits(ops_, network_, ops_.copy(x, first, rows));
        sum += logit_loss(options_.loss, logits, wanted, own_labels, 1.0 / count, ops_.pool());
        continue;
      }
      const Variable hidden = head_tape_.variable(ops_.copy(x, first, rows));
      const Variable y = models::logits(head_tape_, network_, hidden);
      Matrix slopes = ops_.copy(y.value());
      sum += logit_loss(options_.loss, slopes, wanted, own_labels, 1.0 / count, ops_.pool());
      head_tape_.backward(y, std::move(slopes));
      std::copy_n(hidden.gradient().data(), rows * x.columns(), gradient->row(first));
    }
    return sum;
  }

  models::Network network_;
  const models::Network& teacher_;
  const WindowBatches& windows_;
  const TuningOptions& options_;
  CpuOps& ops_;
  Parameters parameters_;
  std::map<int, std::vector<std::unique_ptr<TunedLayer>>> layers_;  // by set id; null: not tuned
  GradientOps tape_;
  GradientOps head_tape_;
  bool keeps_all_ = true;
};

}  // namespace

std::map<std::string, formats::PackedWeight> tune_scales(
    const models::Network& compressed, const models::Network& teacher, const WindowBatches& windows,
    const TuningOptions& options, CpuOps& ops, const std::filesystem::path& state, LossCurve& curve,
    core::ProgressSink& progress, ModelGain& gain) {
  ScaleTuner tuner(compressed, teacher, windows, options, ops);
  AdamW optimizer(tuner.parameters(), {}, ops.pool());
  const std::int64_t steps = windows.steps() * options.model.epochs;
  const LearningRate rate{options.model.learning_rate, Decay::kCosine, steps, steps / 20, 0.05};
  progress.begin("the whole model: e2e-oqp", steps);
  if (const auto more = load_training(state, steps, tuner.parameters(), optimizer)) {
    const std::string where = io::shown(state).str();
    curve.resume(
        core::get_integer(*more, "curve", where, optimizer.steps(), LossCurve::kMostSteps));
    const auto before = core::find_number(*more, "before", where);
    core::require(before.has_value(), core::ErrorKind::kInvalidModel,
                  "{} does not say what the model was before", io::shown(state));
    gain.before = *before;
    progress.skip(optimizer.steps());
    tuner.update();
  } else {
    gain.before = tuner.judge();
  }
  const auto save = [&] {
    curve.save();  // first: resume() drops lines behind the state, and cannot make up for missing
                   // ones
    save_training(state, tuner.parameters(), optimizer,
                  {{"curve", curve.steps()}, {"before", gain.before}});
  };
  while (optimizer.steps() < steps) {
    const std::int64_t step = optimizer.steps();
    const std::int64_t epoch = step / windows.steps();
    const auto steps_of_epoch = windows.epoch(epoch, options.seed);
    const auto& own = steps_of_epoch[static_cast<std::size_t>(step % windows.steps())];
    double loss = 0;
    for (const auto& batch : windows.batches(own)) {
      loss += tuner.loss(batch, true, std::ssize(own));
    }
    require_finite(loss, tuner.parameters(), step + 1);
    const double norm = optimizer.step(rate.at(step));
    tuner.update();
    curve.add({"e2e-oqp", 0, epoch + 1, step + 1, loss, rate.at(step), norm});
    progress.update(step + 1, fmt::format("loss {:.5f}", loss));
    if ((step + 1) % options.checkpoint == 0 || step + 1 == steps) {
      save();
    }
  }
  progress.end();
  gain.after = tuner.judge();
  if (!(gain.after < gain.before)) {
    return {};
  }
  return tuner.result();
}

}  // namespace nibble::tune
