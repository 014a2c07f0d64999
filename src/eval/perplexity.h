#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/progress.h"
#include "engine/runner.h"
#include "eval/metrics/sample_statistics.h"

namespace nibble::eval {

/// Protocol (P-GPTQ): the text is tokenized once without special tokens, cut at `max_tokens`, and
/// cut into full windows of `seq_len` tokens that do not overlap; a last partial window is dropped.
/// Each window predicts its tokens 2..seq_len. perplexity = exp(nll), nll the mean over all
/// predictions.
struct PerplexityOptions {
  std::int64_t seq_len = 0;     // 0: what the model was made for
  std::int64_t max_tokens = 0;  // 0: the whole text
};

/// How far a model is from its reference on the same predictions. KL is KL(reference || model) of
/// one prediction, in nats; quantiles are exact, over all predictions.
struct Divergence {
  Mean kl;
  double kl_median = 0;
  Interval kl_median_interval;  // 95 %
  double kl_p999 = 0;           // 99.9th percentile
  Interval kl_p999_interval;    // 95 %; open above (NaN) below about 6,000 predictions
  double top1_agreement = 0;    // share of predictions with the same most probable token
  double top1_standard_error = 0;
  Mean nll_increase;  // log-perplexity minus the reference's; errors of the paired differences
};

struct PerplexityResult {
  std::int64_t text_tokens = 0;  // of the whole text
  std::int64_t predictions = 0;
  Mean nll;
  double perplexity = 0;
  double seconds = 0;
  std::optional<Divergence> divergence;
};

/// `reference` may be null. Throws kUsage when the text has not one window, kFailed on NaN logits.
PerplexityResult measure_perplexity(engine::Runner& runner, std::span<const std::int32_t> tokens,
                                    const PerplexityOptions& options, core::ProgressSink& progress,
                                    engine::Runner* reference = nullptr);

}  // namespace nibble::eval
