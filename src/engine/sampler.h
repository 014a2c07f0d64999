#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/random.h"
#include "ops/ranked_token.h"
#include "ops/row_draw.h"

namespace nibble::engine {

/// How the next token is drawn. Biases and penalties (penalties.h) change the logits; then come
/// top-k, top-p, min-p on the probabilities at temperature 1, then the temperature, then one draw.
struct SamplingOptions {
  float temperature = 0.8f;  // 0: always the most probable token (the lowest id on ties)
  std::int64_t top_k = 40;   // keep the k most probable; 0: all
  float top_p = 0.95f;  // keep the fewest tokens whose probabilities reach p (arXiv 1904.09751)
  float min_p = 0.05f;  // drop tokens below p times the largest probability
  std::uint64_t seed = 0;

  /// Above 1: logits of tokens that stand in the prompt or in the text are divided by it, negative
  /// ones multiplied (CTRL, arXiv 1909.05858, section 4.1).
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;   // taken from the logits of tokens that stand in the text
  float frequency_penalty = 0.0f;  // the same, for each time that they stand there
  std::vector<std::pair<std::int32_t, float>> logit_bias = {};  // by token: added to its logit
};

/// Throws kUsage when a value lies outside its range, or a bias is of a token outside the
/// vocabulary.
void validate(const SamplingOptions& options, std::int64_t vocabulary);

/// Tokens with the largest logits, the largest first, the lower id first of equal ones.
using RankedTokens = std::span<const ops::RankedToken>;

/// The `count` first of a row; all where count is 0. Tokens with a logit of -infinity are left out.
/// Throws kFailed when the logits hold NaN.
void rank(std::span<const float> logits, std::int64_t count, std::vector<ops::RankedToken>& ranked);

/// The same, but false, and no token, where the logits hold NaN.
bool rank_numbers(std::span<const float> logits, std::int64_t count,
                  std::vector<ops::RankedToken>& ranked);

bool has_nan(std::span<const float> logits);
/// Throws kFailed: the logits hold NaN.
[[noreturn]] void fail_with_nan();

/// Draws tokens for one sequence; the same seed and logits give the same tokens.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  /// How many of the first tokens of a row it needs; 0: the row.
  std::int64_t wanted() const;

  /// From as many of a row as it wants, or more; at least one.
  std::int32_t sample(RankedTokens ranked);
  /// From the whole row, where it wants that; nothing where all logits are -infinity. Throws
  /// kFailed for NaN.
  std::optional<std::int32_t> sample_row(std::span<const float> logits);

  /// What these will do when they have been called `before` times more.
  ops::TokenDraw draw_after(std::int64_t before) const;

 private:
  ops::TokenDraw draw(double uniform) const;

  SamplingOptions options_;
  core::Random random_;
  ops::RowWeights weights_;
};

}  // namespace nibble::engine
