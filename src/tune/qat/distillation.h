#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gradient/gradient_ops.h"
#include "tune/qat/labelled_texts.h"
#include "tune/qat/loss_terms.h"

namespace nibble::tune {

/// What each term of the loss counts for; 0 leaves it out. Of layers, the sum over all of them
/// counts.
struct LossWeights {
  double labels = 0;
  double logits = 0;
  double hidden = 0;     // states behind each block
  double attention = 0;  // normalized
  double scores = 0;     // attention before softmax

  bool needs_teacher() const { return logits > 0 || hidden > 0 || needs_scores(); }
  bool needs_scores() const { return attention > 0 || scores > 0; }
};

/// What the terms were on a batch; 0 where one was left out.
struct LossTerms {
  double labels = 0;
  double logits = 0;
  double hidden = 0;
  double attention = 0;
  double scores = 0;

  double total(const LossWeights& weights) const {
    return weights.labels * labels + weights.logits * logits + weights.hidden * hidden +
           weights.attention * attention + weights.scores * scores;
  }
};

/// Layer-wise distillation of an encoder: both networks read a batch of texts, and the loss is what
/// the student makes of it against the labels and the teacher (Wu et al. 2023, arXiv 2301.12017,
/// section 3). Both have as many layers, of equal sizes, and a head that labels texts.
class Distillation {
 public:
  /// The networks and operators outlive this. `teacher_ops` and `student_ops` compute in float, and
  /// hold the layouts of their model alone.
  Distillation(const models::Network& teacher, ops::cpu::CpuOps& teacher_ops,
               const models::Network& student, ops::cpu::CpuOps& student_ops,
               const LossWeights& weights);

  /// The loss of a batch. Its gradient is added to the parameters of `gradients`.
  LossTerms step(std::span<const LabelledText* const> texts,
                 const ops::gradient::ParameterGradients& gradients);

 private:
  struct Texts;
  struct Pass;
  static Pass run(ops::gradient::GradientOps& tape, const models::Network& network,
                  const Texts& texts);
  LossTerms compare(const Pass& student, const Pass& teacher, const Texts& texts);

  const models::Network& teacher_;
  const models::Network& student_;
  ops::cpu::CpuOps& student_ops_;
  LossWeights weights_;
  ops::gradient::GradientOps teacher_tape_;
  ops::gradient::GradientOps student_tape_;
};

}  // namespace nibble::tune
