#include "tune/qat/distillation.h"

#include "core/error.h"
#include "engine/encoder_batch.h"
#include "models/encoder_forward.h"

namespace nibble::tune {

using ops::cpu::KvCache;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::RowRange;
using ops::gradient::Variable;

// Texts one after another, without padding.
struct Distillation::Texts {
  Texts(const models::Network& network, std::span<const LabelledText* const> texts)
      : rows(network) {
    for (const LabelledText* text : texts) {
      slices.push_back({nullptr, 0, rows.rows(), std::ssize(text->tokens)});
      ranges.push_back({rows.rows(), std::ssize(text->tokens)});
      rows.append({text->tokens, text->types});
      labels.push_back(text->label);
    }
  }

  models::Batch<GradientOps> batch() const {
    return {rows.tokens(), rows.positions(), slices, rows.types()};
  }

  engine::EncoderBatch rows;
  std::vector<ops::SequenceSlice<KvCache>> slices;
  std::vector<RowRange> ranges;
  std::vector<Label> labels;
};

// What a network made of a batch.
struct Distillation::Pass {
  std::vector<Variable> hidden;  // behind each block
  std::vector<Variable> scores;  // of each block
  Variable logits;
};

Distillation::Distillation(const models::Network& teacher, ops::cpu::CpuOps& teacher_ops,
                           const models::Network& student, ops::cpu::CpuOps& student_ops,
                           const LossWeights& weights)
    : teacher_(teacher),
      student_(student),
      student_ops_(student_ops),
      weights_(weights),
      teacher_tape_(teacher_ops),
      student_tape_(student_ops) {
  core::require(student.classifier.has_value() && teacher.classifier.has_value(),
                core::ErrorKind::kUsage, "the model has no head that labels texts");
  if (weights_.needs_scores()) {
    teacher_tape_.keep_scores();
    student_tape_.keep_scores();
  }
}

Distillation::Pass Distillation::run(GradientOps& tape, const models::Network& network,
                                     const Texts& texts) {
  Pass pass;
  const auto batch = texts.batch();
  auto x = models::embed_for_encoder(tape, network, batch);
  const auto& blocks = network.encoder.blocks;
  for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
    models::settle(tape, x,
                   models::run_block(tape, network.config, network.encoder.norms, blocks[layer],
                                     static_cast<std::int64_t>(layer), batch, x, {}));
    pass.hidden.push_back(x);
  }
  pass.scores.assign(tape.scores().begin(), tape.scores().end());
  const Variable states = models::encoder_states(tape, network, x);
  pass.logits =
      models::run_head(tape, network.classifier->head, tape.gather(states, texts.rows.firsts()));
  return pass;
}

LossTerms Distillation::step(std::span<const LabelledText* const> texts,
                             const ops::gradient::ParameterGradients& gradients) {
  const Texts batch(student_, texts);
  Pass teacher;
  if (weights_.needs_teacher()) {
    teacher = run(teacher_tape_, teacher_, batch);
    teacher_tape_.forget();
  }
  const Pass student = run(student_tape_, student_, batch);
  student_tape_.set_parameters(&gradients);
  const LossTerms terms = compare(student, teacher, batch);
  student_tape_.backward();
  return terms;
}

LossTerms Distillation::compare(const Pass& student, const Pass& teacher, const Texts& texts) {
  LossTerms terms;
  // Adds to the gradient at what the student gave.
  const auto add = [&](const Variable& at, auto loss) {
    Matrix gradient = student_ops_.zeros(at.rows(), at.columns());
    const double value = loss(gradient);
    student_tape_.add_gradient(at, gradient);
    return value;
  };
  const models::Problem problem = student_.classifier->problem;
  if (weights_.labels > 0) {
    terms.labels = add(student.logits, [&](Matrix& gradient) {
      return add_label_loss(problem, student.logits.value(), texts.labels, weights_.labels,
                            gradient);
    });
  }
  if (weights_.logits > 0) {
    terms.logits = add(student.logits, [&](Matrix& gradient) {
      return add_logit_loss(problem, student.logits.value(), teacher.logits.value(),
                            weights_.logits, gradient);
    });
  }
  for (std::size_t layer = 0; layer < student.hidden.size(); ++layer) {
    if (weights_.hidden > 0) {
      terms.hidden += add(student.hidden[layer], [&](Matrix& gradient) {
        return add_squared_difference(student.hidden[layer].value(), teacher.hidden[layer].value(),
                                      weights_.hidden, gradient);
      });
    }
    if (!weights_.needs_scores()) {
      continue;
    }
    const LayerScores scores = {student_.encoder.blocks[layer].attention.spec, texts.ranges,
                                student.scores[layer].value(), teacher.scores[layer].value()};
    add(student.scores[layer], [&](Matrix& gradient) {
      if (weights_.attention > 0) {
        terms.attention += add_attention_loss(scores, weights_.attention, gradient);
      }
      if (weights_.scores > 0) {
        terms.scores += add_score_loss(scores, weights_.scores, gradient);
      }
      return 0.0;
    });
  }
  return terms;
}

}  // namespace nibble::tune
