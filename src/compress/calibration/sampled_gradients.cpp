#include "compress/calibration/sampled_gradients.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "core/random.h"
#include "models/forward.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::compress {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::Variable;

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

class Sampler {
 public:
  Sampler(const models::Network& network, std::uint64_t seed, CpuOps& ops)
      : network_(network), ops_(ops), tape_(ops), random_(seed) {}

  GradientOps& tape() { return tape_; }

  void add(const std::vector<std::int32_t>& window) {
    std::vector<std::int32_t> positions(window.size());
    std::iota(positions.begin(), positions.end(), 0);
    const auto rows = static_cast<std::int64_t>(window.size());
    const ops::SequenceSlice<KvCache> alone{nullptr, 0, 0, rows};

    const models::Batch<CpuOps> forward{window, positions, {&alone, 1}};
    Matrix x = models::embed(ops_, network_, forward);
    std::vector<Matrix> inputs;
    for (std::size_t i = 0; i < network_.decoder.blocks.size(); ++i) {
      inputs.push_back(ops_.copy(x));
      models::settle(ops_, x,
                     models::run_block(ops_, network_.config, network_.decoder.norms,
                                       network_.decoder.blocks[i], static_cast<std::int64_t>(i),
                                       forward, x, {}));
    }

    Matrix gradient = gradient_of_loss(x);
    const models::Batch<GradientOps> batch{window, positions, {&alone, 1}};
    for (std::size_t i = network_.decoder.blocks.size(); i-- > 0;) {
      const Variable start = tape_.variable(std::move(inputs[i]));
      Variable y = start;
      models::settle(tape_, y,
                     models::run_block(tape_, network_.config, network_.decoder.norms,
                                       network_.decoder.blocks[i], static_cast<std::int64_t>(i),
                                       batch, y, {}));
      tape_.backward(y, std::move(gradient));
      gradient = ops_.copy(start.gradient());
    }
    const auto values = gradient.values();
    core::require(
        std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }),
        core::ErrorKind::kFailed,
        "the gradient of the loss is not finite on the calibration text; the model's weights may "
        "be damaged");
  }

 private:
  // The gradient of the loss at the hidden states x.
  Matrix gradient_of_loss(const Matrix& x) {
    Matrix result = ops_.matrix(x.rows(), x.columns());
    for (std::int64_t first = 0; first < x.rows(); first += kLogitRows) {
      const std::int64_t rows = std::min(kLogitRows, x.rows() - first);
      const Variable hidden = tape_.variable(ops_.copy(x, first, rows));
      const Variable logits = models::logits(tape_, network_, hidden);
      Matrix gradient = ops_.copy(logits.value());
      for (std::int64_t i = 0; i < rows; ++i) {
        draw_gradient(gradient.row(i), gradient.columns(), random_);
      }
      tape_.backward(logits, std::move(gradient));
      std::copy_n(hidden.gradient().data(), rows * x.columns(), result.row(first));
    }
    return result;
  }

  const models::Network& network_;
  CpuOps& ops_;
  GradientOps tape_;
  core::Random random_;
};

}  // namespace

void sample_gradients(const models::Network& network, const CalibrationWindows& windows,
                      std::uint64_t seed, CpuOps& ops, const GradientOps::Observer& observer,
                      const std::string& title, core::ProgressSink& progress) {
  core::require(network.config.routing.experts == 0, core::ErrorKind::kUsage,
                "gradients of the loss are not measured for a mixture of experts; leave out what "
                "needs them (refinement on the model's loss, a target size)");
  Sampler sampler(network, seed, ops);
  sampler.tape().set_observer(observer);
  const auto count = static_cast<std::int64_t>(windows.size());
  progress.begin(title, count);
  for (std::int64_t i = 0; i < count; ++i) {
    sampler.add(windows[static_cast<std::size_t>(i)]);
    progress.update(i + 1, "");
  }
  progress.end();
}

}  // namespace nibble::compress
