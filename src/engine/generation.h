#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/penalties.h"
#include "engine/request.h"
#include "engine/stop_strings.h"
#include "models/model.h"
#include "text/grammar/token_mask.h"
#include "text/stream_decoder.h"

namespace nibble::engine {

/// What becomes of one request: its tokens, how the next one is chosen from a row of logits, and
/// when the text ends. Knows nothing of caches and of other requests.
class Generation {
 public:
  /// The request was validated. `limit`: tokens to generate at the most; `tree`: of the tokenizer,
  /// where the request has a grammar.
  Generation(Request request, std::int64_t limit, const models::Model& model,
             const std::shared_ptr<const text::TokenTree>& tree);

  const Request& request() const { return request_; }
  const Completion& completion() const { return completion_; }
  /// The prompt and what was generated.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::int64_t length() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t prompt_length() const { return static_cast<std::int64_t>(request_.prompt.size()); }
  /// Tokens that may still be generated.
  std::int64_t room() const { return limit_ - (length() - prompt_length()); }
  bool finished() const { return finished_; }

  /// Whether accept() needs whole rows of logits, not only the first of the ranked tokens.
  bool needs_whole_rows() const;
  /// How many of the ranked tokens accept() needs; 0 where it needs whole rows to draw.
  std::int64_t wanted() const { return sampler_.wanted(); }
  /// Whether what accept() chooses from here on is draw_after(), of at most kMostDrawn first tokens
  /// or all, and nothing else of a row is needed.
  bool draws_alone() const {
    return !changes_rows() && !request_.prompt_log_probabilities && wanted() <= ops::kMostDrawn;
  }
  /// How accept() will choose when it has been called `before` times more.
  ops::TokenDraw draw_after(std::int64_t before) const { return sampler_.draw_after(before); }

  /// Chooses the token that follows tokens() by a row of logits [vocabulary], or by its first
  /// ranked ones, and goes on with it or ends. Throws kFailed for NaN.
  void accept(std::span<const float> logits);
  void accept(RankedTokens ranked);

  /// Whether a row that predicts prompt token `index` (> 0) is wanted for the prompt's records.
  bool wants_prompt_row(std::int64_t index) const;
  void record_prompt(std::int64_t index, std::span<const float> logits);

  /// For the completion: its sequence has got its place in the KV cache, and found so many tokens
  /// of the prompt there. Of calls before the first token, the last says the tokens.
  void admit(std::int64_t cached_tokens);

  /// Ends the generation from outside.
  void cancel();
  void fail(std::exception_ptr error);

 private:
  bool changes_rows() const;
  std::optional<std::int32_t> choose(std::span<const float> row);
  void accept_token(std::optional<std::int32_t> token, std::span<const float> logits);
  void forbid(std::span<float> logits);
  bool may_end() const;
  bool is_end(std::int32_t token) const;
  void emit(const std::string& text);
  void finish(FinishReason reason);

  Request request_;
  std::int64_t limit_;
  std::vector<std::int32_t> ends_;  // end tokens
  std::vector<std::int32_t> tokens_;
  Sampler sampler_;
  Penalties penalties_;
  text::StreamDecoder network_;
  StopStrings stop_;
  std::int64_t vocabulary_ = 0;  // of the tree
  std::unique_ptr<text::GrammarConstraint> constraint_;
  Completion completion_;
  std::size_t sent_records_ = 0;
  bool finished_ = false;
  std::vector<float> row_;
  std::vector<ops::RankedToken> ranked_;
};

}  // namespace nibble::engine
