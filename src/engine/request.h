#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampler.h"
#include "text/grammar/grammar.h"

namespace nibble::engine {

/// A token and the natural logarithm of its probability, by the model's own softmax: before biases,
/// penalties, grammars and the temperature.
struct TokenChance {
  std::int32_t token = 0;
  float log_probability = 0.0f;
};

/// A token of a text, with the tokens that were most probable in its place.
struct TokenRecord {
  TokenChance chosen;
  std::int64_t rank = 1;  // of the chosen one among all; equal chances rank by token id
  std::vector<TokenChance> most_probable;  // the most probable first
};

/// Why a generation ended: an end token, a stop string or the end of a grammar; the token limit;
/// Engine::cancel(); an error.
enum class FinishReason { kStop, kLength, kCancelled, kFailed };
std::string_view to_string(FinishReason reason);  // "stop", "length", "cancelled", "failed"

/// What became certain of a text.
struct Piece {
  std::string_view text;                 // valid UTF-8
  std::span<const TokenRecord> records;  // where asked for: of the tokens since the last piece
};

/// What a finished request gave.
struct Completion {
  using Clock = std::chrono::steady_clock;

  std::vector<std::int32_t> tokens;  // without the end token
  std::string text;                  // without the stop string
  FinishReason reason = FinishReason::kStop;
  std::exception_ptr error;                 // of kFailed
  std::vector<TokenRecord> records;         // of `tokens`, where asked for
  std::vector<TokenRecord> prompt_records;  // of the prompt but its first token, where asked for
  std::int64_t cached_tokens = 0;           // of the prompt, taken from the prefix cache

  // When it got its place in the KV cache for the first time, and when its first and its last token
  // (or the end of the text) were chosen. Set for kStop and kLength.
  Clock::time_point admitted;
  Clock::time_point first_token;
  Clock::time_point last_token;
};

/// Throws what made a generation fail, if it did.
inline void rethrow_failure(const Completion& completion) {
  if (completion.error) {
    std::rethrow_exception(completion.error);
  }
}

struct Request {
  std::vector<std::int32_t> prompt;  // at least one token
  std::int64_t max_tokens = 128;     // also bounded by the context
  std::int64_t min_tokens = 0;       // no end token before so many
  SamplingOptions sampling;
  std::vector<std::string> stop;                 // generation ends before the first of these
  std::vector<std::int32_t> stop_tokens;         // end tokens of this request beside the model's
  bool ignore_end_tokens = false;                // go on past the model's end of text
  std::shared_ptr<const text::Grammar> grammar;  // of the completion; null: any text

  /// Records of the tokens, each with so many most probable ones; empty: no records.
  std::optional<std::int64_t> log_probabilities;
  std::optional<std::int64_t> prompt_log_probabilities;  // the same for the prompt

  std::string cache_salt;  // requests share cached prefixes only where these are equal

  std::function<void(const Piece&)> on_piece;
  std::function<void(const Completion&)> on_finish;
};

/// Tokens in a record at the most.
inline constexpr std::int64_t kMaxLogProbabilities = 100;

}  // namespace nibble::engine
