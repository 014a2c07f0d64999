#pragma once

#include <cstdint>
#include <span>

#include "core/threads.h"
#include "ops/cpu/matrix.h"

namespace nibble::tune {

/// Shares of what a model's logits are trained on.
struct LogitLoss {
  double labels = 0.0;  // -log p(the next token of the text)
  double logits = 1.0;  // KL(teacher || model)
};

/// Mean over the rows that have a label (not -1) of the loss at `logits` [m, vocabulary], summed:
/// `scale` is 1 / rows. `logits` becomes the gradient of scale times the sum. `teacher`, of as many
/// logits, is used up; it is not read where loss.logits is 0.
double logit_loss(const LogitLoss& loss, ops::cpu::Matrix& logits, ops::cpu::Matrix& teacher,
                  std::span<const std::int32_t> labels, double scale, core::ThreadPool& pool);

/// scale * |y - target|^2, both [m, n]; y becomes its gradient.
double square_loss(ops::cpu::Matrix& y, const ops::cpu::Matrix& target, double scale);

}  // namespace nibble::tune
