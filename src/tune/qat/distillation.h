#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gradient/gradient_ops.h"
#include "tune/qat/labelled_texts.h"
#include "tune/qat/student_batch.h"
#include "tune/qat/student_loss.h"

namespace nibble::tune {

/// Layer-wise distillation of an encoder, a decoder, or both as one model: both networks read a
/// batch of texts, and the loss is what the student makes of it against the answers and the teacher
/// (Wu et al. 2023, arXiv 2301.12017, section 3). An encoder has a head that labels texts. A
/// decoder reads the answer itself, a token behind (teacher forcing), and each of its tokens is a
/// label. Layers have equal sizes in both networks.
class Distillation {
 public:
  /// The networks and operators outlive this. `teacher_ops` and `student_ops` compute in float, and
  /// hold the layouts of their model alone. `layers` says for each layer of the student which of
  /// the teacher's it is compared with, the encoder's first in both (models::all_blocks); empty:
  /// each with its own.
  Distillation(const models::Network& teacher, ops::cpu::CpuOps& teacher_ops,
               const models::Network& student, ops::cpu::CpuOps& student_ops,
               const LossWeights& weights, std::vector<std::int64_t> layers = {});

  /// The loss of a batch, times its share: of all batches of a step, the sum is the loss of the
  /// step. Its gradient is added to the parameters of `gradients`.
  LossTerms step(std::span<const LabelledText* const> texts,
                 const ops::gradient::ParameterGradients& gradients, const BatchShare& share = {});

 private:
  struct Layer;
  struct Pass;
  static Pass run(ops::gradient::GradientOps& tape, const models::Network& network,
                  const StudentBatch& texts);
  LossTerms compare_answers(const Pass& student, const Pass& teacher, const StudentBatch& texts,
                            const BatchShare& share);
  LossTerms compare_layers(const Pass& student, const Pass& teacher, const StudentBatch& texts,
                           const BatchShare& share);
  // Adds the gradient that `loss(gradient)` leaves at what the student gave. Returns its value.
  template <typename Loss>
  double add(const ops::gradient::Variable& at, Loss loss);

  const models::Network& teacher_;
  const models::Network& student_;
  ops::cpu::CpuOps& student_ops_;
  LossWeights weights_;
  std::vector<std::int64_t> layers_;
  ops::gradient::GradientOps teacher_tape_;
  ops::gradient::GradientOps student_tape_;
};

}  // namespace nibble::tune
