#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"

namespace nibble::engine {

/// How the next token is drawn. Steps in this order: top-k, top-p, min-p on the probabilities at
/// temperature 1, then the temperature, then one draw.
struct SamplingOptions {
  float temperature = 0.8f;  // 0: always the most probable token (the lowest id on ties)
  std::int64_t top_k = 40;   // keep the k most probable; 0: all
  float top_p = 0.95f;  // keep the fewest tokens whose probabilities reach p (arXiv 1904.09751)
  float min_p = 0.05f;  // drop tokens below p times the largest probability
  std::uint64_t seed = 0;
};

/// Throws kUsage when a value lies outside its range.
void validate(const SamplingOptions& options);

/// Draws tokens for one sequence; the same seed and logits give the same tokens.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  /// Throws kFailed when the logits hold NaN.
  std::int32_t sample(std::span<const float> logits);

 private:
  struct Candidate {
    std::int32_t id;
    float value;  // logit, then probability
  };

  SamplingOptions options_;
  core::Random random_;
  std::vector<Candidate> candidates_;
};

}  // namespace nibble::engine
