#include "engine/penalties.h"

namespace nibble::engine {

Penalties::Penalties(const SamplingOptions& options, std::span<const std::int32_t> prompt)
    : options_(options),
      penalizes_(options.repetition_penalty != 1.0f || options.presence_penalty != 0.0f ||
                 options.frequency_penalty != 0.0f) {
  if (options.repetition_penalty != 1.0f) {
    for (const std::int32_t token : prompt) {
      counts_.emplace(token, 0);
    }
  }
}

void Penalties::apply(std::span<float> logits) const {
  for (const auto& [token, bias] : options_.logit_bias) {
    logits[static_cast<std::size_t>(token)] += bias;
  }
  for (const auto& [token, count] : counts_) {
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = logit > 0 ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
    if (count > 0) {
      logit -= options_.presence_penalty;
      logit -= options_.frequency_penalty * static_cast<float>(count);
    }
  }
}

void Penalties::accept(std::int32_t token) {
  if (penalizes_) {
    ++counts_[token];
  }
}

}  // namespace nibble::engine
