#pragma once

#include <cstddef>
#include <span>

namespace nibble::eval {

/// log of the sum of exp(logits): the log-probability of token i is logits[i] -
/// log_sum_exp(logits).
double log_sum_exp(std::span<const float> logits);

/// The most probable token; of equal ones the first.
std::size_t arg_max(std::span<const float> logits);

}  // namespace nibble::eval
