#pragma once

#include <cstdint>
#include <span>

#include "models/network.h"
#include "ops/cpu/matrix.h"
#include "ops/gradient/attention_gradient.h"

/// What a student's loss is made of. Each function returns a mean and adds `weight` times its
/// gradient to `gradient`, which has the shape of what the student gave. All are 0, and so are
/// their gradients, where student and teacher agree.
namespace nibble::tune {

/// The answer to a text: a class (the number of an output), or a number. Of what a decoder writes,
/// each token is an answer, and a class of its own.
struct Label {
  std::int32_t output = 0;
  float value = 0.0f;
};

/// Cross-entropy of the logits [answers, outputs] with the right outputs, or for regression the
/// mean squared error. Throws kUsage for other kinds of heads.
double add_label_loss(models::Problem problem, const ops::cpu::Matrix& logits,
                      std::span<const Label> labels, double weight, ops::cpu::Matrix& gradient);

/// KL(softmax(teacher) || softmax(student)), the mean over answers (Hinton et al., arXiv
/// 1503.02531, at temperature 1); for regression the mean squared difference. Throws kUsage for
/// other heads.
double add_logit_loss(models::Problem problem, const ops::cpu::Matrix& student,
                      const ops::cpu::Matrix& teacher, double weight, ops::cpu::Matrix& gradient);

/// The mean squared difference of all elements (hidden states: TinyBERT, arXiv 1909.10351, equation
/// 8).
double add_squared_difference(const ops::cpu::Matrix& student, const ops::cpu::Matrix& teacher,
                              double weight, ops::cpu::Matrix& gradient);

/// Attention of one layer: the scores of its texts (ops/gradient/attention_scores.h).
struct LayerScores {
  const ops::AttentionSpec& spec;
  std::span<const ops::gradient::TextRows> texts;
  const ops::cpu::Matrix& student;
  const ops::cpu::Matrix& teacher;
};

/// KL(softmax(teacher) || softmax(student)) of normalized attention, the mean over texts, heads and
/// queries (MiniLM, arXiv 2002.10957, equation 4).
double add_attention_loss(const LayerScores& scores, double weight, ops::cpu::Matrix& gradient);

/// The mean squared difference of the scores before softmax, where a query sees a key (TinyBERT,
/// equation 7).
double add_score_loss(const LayerScores& scores, double weight, ops::cpu::Matrix& gradient);

}  // namespace nibble::tune
