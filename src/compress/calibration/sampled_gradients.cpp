#include "compress/calibration/sampled_gradients.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "compress/calibration/pack_forward.h"
#include "core/error.h"
#include "core/random.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::compress {
namespace {

using ops::cpu::CpuOps;
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

// The same of one output: 0 or 1 is drawn, 1 with the probability of the logistic function.
void draw_each_gradient(float* logits, std::int64_t count, core::Random& random) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double probability = 1 / (1 + std::exp(-static_cast<double>(logits[i])));
    logits[i] = static_cast<float>(probability - (random.uniform() < probability ? 1.0 : 0.0));
  }
}

// Of half the squared distance to a draw from N(outputs, 1).
void draw_normal_gradient(float* outputs, std::int64_t count, core::Random& random) {
  std::generate_n(outputs, count, [&] { return random.normal(); });
}

using Draw = void (*)(float* outputs, std::int64_t count, core::Random& random);

Draw draw_of(models::Problem problem) {
  switch (problem) {
    case models::Problem::kRegression:
      return draw_normal_gradient;
    case models::Problem::kMultiLabel:
      return draw_each_gradient;
    case models::Problem::kSingleLabel:
    case models::Problem::kTokenLabels:
      break;
  }
  return draw_gradient;
}

// The row of each text's first token.
std::vector<std::int32_t> firsts_of(const CalibrationPack& pack) {
  std::vector<std::int32_t> rows;
  std::int64_t row = 0;
  for (const std::int64_t length : pack.lengths) {
    rows.push_back(static_cast<std::int32_t>(row));
    row += length;
  }
  return rows;
}

class Sampler {
 public:
  Sampler(const models::Network& network, std::uint64_t seed, CpuOps& ops)
      : network_(network), ops_(ops), tape_(ops), random_(seed) {}

  GradientOps& tape() { return tape_; }

  void add(const CalibrationInputs& inputs, std::size_t pack) {
    if (!network_.has_encoder()) {
      Pass pass = start(network_.decoder, inputs.decoder[pack]);
      run(pass);
      back(pass, gradient_of_logits(pass.x));
      return;
    }
    Pass encoder = start(network_.encoder, inputs.encoder[pack]);
    run(encoder);
    if (!network_.has_decoder()) {
      back(encoder, gradient_of_head(encoder));
      return;
    }
    const Matrix states = models::encoder_states(ops_, network_, ops_.copy(encoder.x));
    Pass decoder = start(network_.decoder, inputs.decoder[pack]);
    decoder.source = &encoder.pack;
    decoder.states = &states;
    run(decoder);
    const Matrix of_states = back(decoder, gradient_of_logits(decoder.x));
    back(encoder, through_states(encoder.x, ops_.copy(of_states)));
  }

 private:
  // A pack on its way through a stack.
  struct Pass {
    const models::Stack& stack;
    const CalibrationPack& pack;
    Matrix x;  // the residual stream
    const CalibrationPack* source =
        nullptr;  // what the encoder before it has read, with its states
    const Matrix* states = nullptr;
    std::vector<Matrix> inputs = {};  // of each block
  };

  Pass start(const models::Stack& stack, const CalibrationPack& pack) {
    const PackBatch batch(pack);
    return {stack, pack,
            &stack == &network_.encoder ? models::embed_for_encoder(ops_, network_, batch.batch())
                                        : models::embed(ops_, network_, batch.batch())};
  }

  void run(Pass& pass) {
    for (const models::Block& block : pass.stack.blocks) {
      pass.inputs.push_back(ops_.copy(pass.x));
      run_pack(ops_, network_.config, pass.stack.norms, block, pass.pack,
               PackSource<CpuOps>{pass.source, pass.states}, pass.x);
    }
  }

  // Passes the gradient at the end of a stack back to its beginning. Returns that of the states
  // that its blocks read, where there are any.
  Matrix back(Pass& pass, Matrix gradient) {
    Matrix of_states;
    if (pass.states != nullptr) {
      of_states = ops_.zeros(pass.states->rows(), pass.states->columns());
    }
    for (std::size_t i = pass.stack.blocks.size(); i-- > 0;) {
      const Variable begin = tape_.variable(std::move(pass.inputs[i]));
      Variable states;
      PackSource<GradientOps> source;
      if (pass.states != nullptr) {
        states = tape_.variable(ops_.copy(*pass.states));
        source = {pass.source, &states};
      }
      Variable y = begin;
      run_pack(tape_, network_.config, pass.stack.norms, pass.stack.blocks[i], pass.pack, source,
               y);
      tape_.backward(y, std::move(gradient));
      gradient = ops_.copy(begin.gradient());
      if (pass.states != nullptr) {
        ops_.add(of_states, states.gradient());
      }
    }
    require_finite(gradient);
    return of_states;
  }

  static void require_finite(const Matrix& gradient) {
    const auto values = gradient.values();
    core::require(
        std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }),
        core::ErrorKind::kFailed,
        "the gradient of the loss is not finite on the calibration text; the model's weights may "
        "be damaged");
  }

  // The gradient behind the encoder's last block from that at its states.
  Matrix through_states(const Matrix& x, Matrix gradient) {
    const Variable hidden = tape_.variable(ops_.copy(x));
    tape_.backward(models::encoder_states(tape_, network_, hidden), std::move(gradient));
    return ops_.copy(hidden.gradient());
  }

  Matrix gradient_of_logits(const Matrix& x) {
    return gradient_by_rows(
        x, [&](const Variable& hidden) { return models::logits(tape_, network_, hidden); },
        draw_gradient);
  }

  Matrix gradient_of_head(const Pass& pass) {
    const auto& classifier = network_.classifier;
    if (classifier && classifier->problem != models::Problem::kTokenLabels) {
      const Variable hidden = tape_.variable(ops_.copy(pass.x));
      const Variable states = models::encoder_states(tape_, network_, hidden);
      back_from(
          models::run_head(tape_, classifier->head, tape_.gather(states, firsts_of(pass.pack))),
          draw_of(classifier->problem));
      return ops_.copy(hidden.gradient());
    }
    const models::Head* const head = classifier           ? &classifier->head
                                     : network_.masked_lm ? &*network_.masked_lm
                                                          : nullptr;
    return gradient_by_rows(
        pass.x,
        [&](const Variable& hidden) {
          const Variable states = models::encoder_states(tape_, network_, hidden);
          return head != nullptr ? models::run_head(tape_, *head, states) : states;
        },
        head != nullptr ? draw_gradient : draw_normal_gradient);
  }

  // The gradient of the loss at the hidden states x, whose rows have outputs of their own.
  template <typename Outputs>
  Matrix gradient_by_rows(const Matrix& x, Outputs outputs_of, Draw draw) {
    Matrix result = ops_.matrix(x.rows(), x.columns());
    for (std::int64_t first = 0; first < x.rows(); first += kLogitRows) {
      const std::int64_t rows = std::min(kLogitRows, x.rows() - first);
      const Variable hidden = tape_.variable(ops_.copy(x, first, rows));
      back_from(outputs_of(hidden), draw);
      std::copy_n(hidden.gradient().data(), rows * x.columns(), result.row(first));
    }
    return result;
  }

  // Draws for each row of the outputs.
  void back_from(const Variable& outputs, Draw draw) {
    Matrix gradient = ops_.copy(outputs.value());
    for (std::int64_t i = 0; i < gradient.rows(); ++i) {
      draw(gradient.row(i), gradient.columns(), random_);
    }
    tape_.backward(outputs, std::move(gradient));
  }

  const models::Network& network_;
  CpuOps& ops_;
  GradientOps tape_;
  core::Random random_;
};

}  // namespace

void sample_gradients(const models::Network& network, const CalibrationInputs& inputs,
                      std::uint64_t seed, CpuOps& ops, const GradientOps::Observer& observer,
                      const std::string& title, core::ProgressSink& progress) {
  core::require(network.config.routing.experts == 0, core::ErrorKind::kUsage,
                "gradients of the loss are not measured for a mixture of experts; leave out what "
                "needs them (refinement on the model's loss, a target size)");
  Sampler sampler(network, seed, ops);
  sampler.tape().set_observer(observer);
  const auto count = static_cast<std::int64_t>(inputs.size());
  progress.begin(title, count);
  for (std::int64_t i = 0; i < count; ++i) {
    sampler.add(inputs, static_cast<std::size_t>(i));
    progress.update(i + 1, "");
  }
  progress.end();
}

}  // namespace nibble::compress
