#include "eval/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::eval {

double log_sum_exp(std::span<const float> logits) {
  thread_local std::vector<float> numerators;
  numerators.assign(logits.begin(), logits.end());
  const float largest = *std::max_element(logits.begin(), logits.end());
  const auto count = static_cast<std::int64_t>(logits.size());
  const float sum = ops::cpu::vector_kernels().softmax_numerators(numerators.data(), count);
  return static_cast<double>(largest) + std::log(static_cast<double>(sum));
}

std::size_t arg_max(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace nibble::eval
