#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;

std::int32_t most_probable(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

void validate(const SamplingOptions& options) {
  core::require(options.temperature >= 0 && options.temperature <= 100, ErrorKind::kUsage,
                "temperature is {}, must be 0 to 100", options.temperature);
  core::require(options.top_k >= 0, ErrorKind::kUsage, "top-k is {}, must be 0 (all) or more",
                options.top_k);
  core::require(options.top_p > 0 && options.top_p <= 1, ErrorKind::kUsage,
                "top-p is {}, must be in (0, 1]", options.top_p);
  core::require(options.min_p >= 0 && options.min_p < 1, ErrorKind::kUsage,
                "min-p is {}, must be in [0, 1)", options.min_p);
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {
  validate(options);
}

std::int32_t Sampler::sample(std::span<const float> logits) {
  const bool has_nan =
      std::any_of(logits.begin(), logits.end(), [](float value) { return std::isnan(value); });
  core::require(!has_nan, ErrorKind::kFailed,
                "the model computed NaN logits; its weights may be damaged");
  if (options_.temperature == 0.0f) {
    return most_probable(logits);
  }
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    candidates_.push_back({static_cast<std::int32_t>(i), logits[i]});
  }
  const auto more_probable = [](const Candidate& a, const Candidate& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  };
  const auto count = static_cast<std::int64_t>(candidates_.size());
  const std::int64_t kept = options_.top_k == 0 ? count : std::min(options_.top_k, count);
  std::partial_sort(candidates_.begin(), candidates_.begin() + kept, candidates_.end(),
                    more_probable);
  candidates_.resize(static_cast<std::size_t>(kept));

  const float largest = candidates_.front().value;
  double total = 0;
  for (Candidate& candidate : candidates_) {
    candidate.value = std::exp(candidate.value - largest);
    total += candidate.value;
  }
  double reached = 0;
  std::size_t end = 0;
  while (end < candidates_.size() && candidates_[end].value >= options_.min_p &&
         (end == 0 || reached < options_.top_p * total)) {
    reached += candidates_[end].value;
    ++end;
  }
  candidates_.resize(end);

  double sum = 0;
  for (Candidate& candidate : candidates_) {
    candidate.value = std::pow(candidate.value, 1.0f / options_.temperature);
    sum += candidate.value;
  }
  double drawn = random_.uniform() * sum;
  for (const Candidate& candidate : candidates_) {
    drawn -= candidate.value;
    if (drawn < 0) {
      return candidate.id;
    }
  }
  return candidates_.back().id;
}

}  // namespace nibble::engine
