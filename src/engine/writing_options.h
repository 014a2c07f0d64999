#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/sampler.h"
#include "models/model.h"

namespace nibble::engine {

/// When a beam search ends that has found as many texts as it has beams (transformers'
/// early_stopping).
enum class EarlyStopping {
  kNo,     // when the best beam, at the length that it has, is no better than the worst of them
  kYes,    // at once
  kNever,  // when the best beam cannot become better than the worst of them at any length
};

/// How tokens are drawn: the logits are divided by the temperature; then come top-k, top-p and
/// min-p, each of what is left, and one draw (transformers' order; SamplingOptions has another).
struct DrawOptions {
  float temperature = 1.0f;  // above 0
  std::int64_t top_k = 50;   // 0: all
  float top_p = 1.0f;
  float min_p = 0.0f;
  std::uint64_t seed = 0;
};

/// How an encoder-decoder writes. Lengths are in tokens and count the start token.
struct WritingOptions {
  std::int32_t start = 0;                    // stands before what is written
  std::vector<std::int32_t> ends;            // each ends a text
  std::int64_t min_length = 0;               // no text ends before it
  std::int64_t max_length = 0;               // of a text, at least 2
  std::optional<std::int32_t> forced_first;  // the only first token
  std::vector<std::int32_t> forced_last;     // of these is the last token of a text of max_length
  std::int64_t no_repeat_ngram = 0;          // no run of so many tokens comes twice; 0: any may
  std::int64_t beams = 1;                    // 1: the likeliest token each time
  double length_penalty = 1.0;  // a text's log-probability is divided by its length to this power
  EarlyStopping early_stopping = EarlyStopping::kNo;
  bool samples = false;  // each token is drawn as `draw` says; only with one beam
  DrawOptions draw;
};

/// What generation_config.json says, or config.json in folders without that file, as transformers
/// understands it; but texts may be as long as the model has positions for where no length is
/// said. Throws kInvalidModel for malformed values, kUsage for settings that are not built.
WritingOptions writing_options(const models::Model& model);

/// With the temperature, which samplers apply last, where it stands here.
SamplingOptions sampling_options(const DrawOptions& draw);

/// Throws kUsage for values outside their ranges, lengths that the model has no positions for, and
/// draws with several beams.
void validate(const WritingOptions& options, const models::NetworkConfig& config);

}  // namespace nibble::engine
