#include "compress/curvature/measure_curvature.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "core/random.h"
#include "models/forward.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "ops/gradient/gradient_ops.h"

namespace nibble::compress {
namespace {

using models::Block;
using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::Variable;

Matrix copy_of(CpuOps& ops, const Matrix& x, std::int64_t first, std::int64_t rows) {
  Matrix y = ops.matrix(rows, x.columns());
  std::copy_n(x.row(first), rows * x.columns(), y.data());
  return y;
}

// In place: logits become the gradient of -log softmax(logits)[token], the token being drawn from
// the softmax.
void draw_gradient(float* logits, std::int64_t vocabulary, core::Random& random) {
  const float sum = ops::cpu::vector_kernels().softmax_numerators(logits, vocabulary);
  ops::cpu::vector_kernels().scale(1.0f / sum, logits, vocabulary);
  double left = random.uniform();
  std::int64_t token = 0;
  while (token + 1 < vocabulary && left >= static_cast<double>(logits[token])) {
    left -= static_cast<double>(logits[token]);
    ++token;
  }
  logits[token] -= 1.0f;
}

class Measurement {
 public:
  Measurement(const models::Decoder& decoder, std::uint64_t seed, CpuOps& ops)
      : decoder_(decoder), ops_(ops), tape_(ops), random_(seed) {
    for (const Block& block : decoder_.blocks) {
      for (const ops::LinearSet* set : models::linear_sets(block)) {
        SetCurvature& curvature = sets_[set->id];
        for (const ops::Linear& part : set->parts) {
          curvature.layers.emplace_back(part.weight.n);
          squares_[set->id].emplace_back();
        }
      }
    }
    tape_.set_observer([this](const ops::LinearSet& set, const Matrix&, const Matrix& gradient) {
      observe(set, gradient);
    });
  }

  void add(const std::vector<std::int32_t>& window) {
    std::vector<std::int32_t> positions(window.size());
    std::iota(positions.begin(), positions.end(), 0);
    const auto rows = static_cast<std::int64_t>(window.size());
    const ops::SequenceSlice<KvCache> alone{nullptr, 0, 0, rows};

    const models::Batch<CpuOps> forward{window, positions, {&alone, 1}};
    Matrix x = models::embed(ops_, decoder_, forward);
    std::vector<Matrix> inputs;
    for (std::size_t i = 0; i < decoder_.blocks.size(); ++i) {
      inputs.push_back(copy_of(ops_, x, 0, rows));
      const Matrix delta =
          models::run_block(ops_, decoder_.config, decoder_.blocks[i], static_cast<std::int64_t>(i),
                            forward, x, std::optional<Matrix>());
      ops_.add(x, delta);
    }

    Matrix gradient = gradient_of_loss(x);
    const models::Batch<GradientOps> batch{window, positions, {&alone, 1}};
    for (std::size_t i = decoder_.blocks.size(); i-- > 0;) {
      const Variable start = tape_.variable(std::move(inputs[i]));
      Variable y = start;
      const Variable delta =
          models::run_block(tape_, decoder_.config, decoder_.blocks[i],
                            static_cast<std::int64_t>(i), batch, y, std::optional<Variable>());
      tape_.add(y, delta);
      tape_.backward(y, std::move(gradient));
      gradient = copy_of(ops_, start.gradient(), 0, rows);
    }
    const auto values = gradient.values();
    core::require(
        std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }),
        core::ErrorKind::kFailed,
        "the gradient of the loss is not finite on the calibration text; the model's weights may "
        "be damaged");
  }

  std::map<int, SetCurvature> finish() {
    for (auto& [id, curvature] : sets_) {
      curvature.token_weights = weights_of(squares_.at(id));
    }
    return std::move(sets_);
  }

 private:
  // The gradient of the loss at the hidden states x.
  Matrix gradient_of_loss(const Matrix& x) {
    Matrix result = ops_.matrix(x.rows(), x.columns());
    for (std::int64_t first = 0; first < x.rows(); first += kLogitRows) {
      const std::int64_t rows = std::min(kLogitRows, x.rows() - first);
      const Variable hidden = tape_.variable(copy_of(ops_, x, first, rows));
      const Variable logits = models::logits(tape_, decoder_, hidden);
      Matrix gradient = copy_of(ops_, logits.value(), 0, rows);
      for (std::int64_t i = 0; i < rows; ++i) {
        draw_gradient(gradient.row(i), gradient.columns(), random_);
      }
      tape_.backward(logits, std::move(gradient));
      std::copy_n(hidden.gradient().data(), rows * x.columns(), result.row(first));
    }
    return result;
  }

  void observe(const ops::LinearSet& set, const Matrix& gradient) {
    const auto found = sets_.find(set.id);
    if (found == sets_.end()) {
      return;  // the output layer
    }
    std::int64_t column = 0;
    for (std::size_t part = 0; part < set.parts.size(); ++part) {
      const std::int64_t n = set.parts[part].weight.n;
      const float* from = gradient.data() + column;
      found->second.layers[part].add(from, gradient.rows(), gradient.columns(), ops_.pool());
      for (std::int64_t i = 0; i < gradient.rows(); ++i) {
        squares_[set.id][part].push_back(
            ops::cpu::vector_kernels().sum_squares(from + i * gradient.columns(), n));
      }
      column += n;
    }
  }

  // One weight for each token from |g|^2 of the set's layers, [layer][token].
  static std::vector<float> weights_of(const std::vector<std::vector<float>>& squares) {
    std::vector<float> weights(squares.front().size());
    double share = 0;
    for (const auto& layer : squares) {
      const double sum = std::accumulate(layer.begin(), layer.end(), 0.0);
      if (sum > 0) {
        const double unit = static_cast<double>(layer.size()) / sum;
        for (std::size_t i = 0; i < layer.size(); ++i) {
          weights[i] += static_cast<float>(layer[i] * unit);
        }
        share += 1;
      }
    }
    for (float& weight : weights) {
      weight = share > 0 ? weight / static_cast<float>(share) : 1.0f;
    }
    return weights;
  }

  const models::Decoder& decoder_;
  CpuOps& ops_;
  GradientOps tape_;
  core::Random random_;
  std::map<int, SetCurvature> sets_;
  std::map<int, std::vector<std::vector<float>>> squares_;  // |g|^2 by set, layer and token
};

}  // namespace

std::map<int, SetCurvature> measure_curvature(const models::Decoder& decoder,
                                              const CalibrationWindows& windows, std::uint64_t seed,
                                              CpuOps& ops, core::ProgressSink& progress) {
  core::require(decoder.config.routing.experts == 0, core::ErrorKind::kUsage,
                "the curvature of the loss is not measured for a mixture of experts; leave out the "
                "passes that need it");
  Measurement measurement(decoder, seed, ops);
  const auto count = static_cast<std::int64_t>(windows.size());
  progress.begin("curvature", count);
  for (std::int64_t i = 0; i < count; ++i) {
    measurement.add(windows[static_cast<std::size_t>(i)]);
    progress.update(i + 1, "");
  }
  progress.end();
  return measurement.finish();
}

}  // namespace nibble::compress
