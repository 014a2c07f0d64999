#pragma once

#include <cstdint>
#include <string_view>

namespace nibble::tune {

/// How a learning rate falls behind its warm-up.
enum class Decay { kConstant, kLinear, kCosine };

/// Throws kUsage for another word than constant, linear, cosine.
Decay parse_decay(std::string_view word);

/// The learning rate of each step: up to `peak` in even steps, then down to `last` times it.
struct LearningRate {
  double peak = 1e-4;
  Decay decay = Decay::kCosine;
  std::int64_t steps = 1;   // in all
  std::int64_t warmup = 0;  // of them
  double last = 0.0;        // share of the peak behind the last step

  /// Of step 0, 1, ..., steps - 1.
  double at(std::int64_t step) const;
};

}  // namespace nibble::tune
