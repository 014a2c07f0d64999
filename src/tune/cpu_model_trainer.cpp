#include "tune/cpu_model_trainer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "compress/calibration/pack_forward.h"
#include "core/json.h"
#include "core/memory.h"
#include "models/forward.h"
#include "ops/gradient/gradient_ops.h"
#include "tune/activation_bytes.h"
#include "tune/adamw.h"
#include "tune/training_state.h"
#include "tune/tuned_layer.h"

namespace nibble::tune {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::Variable;

constexpr std::int64_t kLogitRows = 256;  // of logits that are held at a time

class CpuModelTrainer final : public ModelTrainer {
 public:
  CpuModelTrainer(const models::Network& compressed, const models::Network& teacher,
                  const WindowBatches& windows, const TuningOptions& options, CpuOps& ops)
      : network_(compressed),
        teacher_(teacher),
        windows_(windows),
        options_(options),
        ops_(ops),
        tape_(ops),
        head_tape_(ops) {
    const Trained trained = options.model.code_rate > 0 ? Trained::kCodes : Trained::kScales;
    const LayerRates rates = layer_rates(options.model);
    for (models::Block& block : network_.decoder.blocks) {
      for (ops::LinearSet* set : models::linear_sets(block)) {
        auto& layers = layers_[set->id];
        for (ops::Linear& layer : set->parts) {
          const bool is_tuned = formats::has_codes(layer.weight.scheme);
          layers.push_back(is_tuned ? std::make_unique<TunedLayer>(layer, trained, rates,
                                                                   std::vector<float>(),
                                                                   parameters_, ops_.pool())
                                    : nullptr);
        }
      }
    }
    if (trained == Trained::kCodes) {
      for_layers([this](TunedLayer& layer) { layer.add_to(gradients_); });
      tape_.set_parameters(&gradients_);
    } else {
      tape_.set_observer([this](const ops::LinearSet& set, const Matrix& x, const Matrix& dy) {
        add_gradients(set, x, dy);
      });
    }
    const std::int64_t tokens = windows.tokens() * options.batch;
    const std::int64_t memory =
        options.memory > 0 ? options.memory : core::available_memory_bytes() / 2;
    keeps_all_ = activation_bytes(network_.decoder, tokens) < memory;
    optimizer_.emplace(parameters_, AdamWOptions(), ops_.pool());
  }

  double step(double loss, double learning_rate) override {
    for_layers([this](TunedLayer& layer) {
      if (layer.parameters().places != nullptr) {
        layer.pass_back(ops_.pool());
      }
    });
    require_finite(loss, parameters_, steps() + 1);
    const double norm = optimizer_->step(learning_rate);
    update();
    return norm;
  }
  std::int64_t steps() const override { return optimizer_->steps(); }

  void save(const std::filesystem::path& state, const core::Json& more) override {
    save_training(state, parameters_, *optimizer_, more);
  }
  std::optional<core::Json> load(const std::filesystem::path& state,
                                 std::int64_t most_steps) override {
    auto more = load_training(state, most_steps, parameters_, *optimizer_);
    if (more) {
      update();
    }
    return more;
  }

  double loss(std::span<const std::int64_t> batch, std::int64_t windows, bool learns) override {
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

  std::map<std::string, formats::PackedWeight> result() override {
    std::map<std::string, formats::PackedWeight> packed;
    for_layers([&](TunedLayer& layer) { packed.emplace(layer.name(), layer.packed(ops_.pool())); });
    return packed;
  }

 private:
  template <typename Visit>
  void for_layers(const Visit& visit) {
    for (const auto& [id, layers] : layers_) {
      for (const auto& layer : layers) {
        if (layer) {
          visit(*layer);
        }
      }
    }
  }

  void update() {
    for_layers([this](TunedLayer& layer) { layer.update(ops_.pool()); });
  }

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
  std::optional<AdamW> optimizer_;
  std::map<int, std::vector<std::unique_ptr<TunedLayer>>> layers_;  // by set id; null: not tuned
  ops::gradient::ParameterGradients gradients_;  // where codes are trained: of values
  GradientOps tape_;
  GradientOps head_tape_;
  bool keeps_all_ = true;
};

}  // namespace

std::unique_ptr<ModelTrainer> make_cpu_model_trainer(const models::Network& compressed,
                                                     const models::Network& teacher,
                                                     const WindowBatches& windows,
                                                     const TuningOptions& options, CpuOps& ops) {
  return std::make_unique<CpuModelTrainer>(compressed, teacher, windows, options, ops);
}

}  // namespace nibble::tune
