#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "engine/sampler.h"

namespace nibble::engine {

/// Changes the logits of one sequence by its biases and by what it has said so far: biases first,
/// then the penalties for repetition, presence and frequency (SamplingOptions).
class Penalties {
 public:
  /// `options` were validated.
  Penalties(const SamplingOptions& options, std::span<const std::int32_t> prompt);

  /// Whether apply() changes anything.
  bool any() const { return penalizes_ || !options_.logit_bias.empty(); }

  /// `logits` [vocabulary] of the next token.
  void apply(std::span<float> logits) const;

  /// A token of the text.
  void accept(std::int32_t token);

 private:
  SamplingOptions options_;
  bool penalizes_;
  std::unordered_map<std::int32_t, std::int64_t> counts_;  // in the text; 0: in the prompt only
};

}  // namespace nibble::engine
