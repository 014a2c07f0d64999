#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/runner.h"
#include "eval/tasks/task.h"
#include "text/tokenizer.h"

namespace nibble::eval {

/// A request in tokens: log P(continuation | context).
struct EncodedRequest {
  std::vector<std::int32_t> context;
  std::vector<std::int32_t> continuation;
};

/// The rule of lm-evaluation-harness (`_encode_pair` and `loglikelihood`, version 0.4.13): white
/// space at the end of the context moves to the continuation; context and whole text are encoded
/// with the tokens that the tokenizer puts around a text; the continuation is what of the whole
/// follows as many tokens as the context has. An empty context is the token that begins a text
/// (else the one that ends it), and the continuation is then encoded alone.
/// Throws kFailed when no token is left for context or continuation, kUsage when a context is empty
/// and the tokenizer has no such token.
EncodedRequest encode_request(const text::Tokenizer& tokenizer, const LikelihoodRequest& request);

struct Likelihood {
  double log_likelihood = 0;  // nats, summed over the tokens of the continuation
  bool greedy = true;         // each token of the continuation is the most probable one
};

/// Scores requests together. A context is cut from the left until `max_positions` inputs remain
/// (context and continuation without its last token). Requests with the same input that stand side
/// by side are computed once. What is scored together changes no more than the rounding of dense
/// layers.
/// Throws kFailed when a continuation has more than `max_positions` tokens, or on NaN logits.
std::vector<Likelihood> score_requests(engine::Runner& runner,
                                       std::span<const EncodedRequest> requests,
                                       std::int64_t max_positions);

}  // namespace nibble::eval
