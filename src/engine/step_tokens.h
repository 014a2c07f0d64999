#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"
#include "engine/runner.h"

namespace nibble::engine {

/// The tokens of one step, all sequences one after another, with their positions. Checks what every
/// device needs checked.
class StepTokens {
 public:
  explicit StepTokens(std::int64_t vocabulary) : vocabulary_(vocabulary) {}

  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::span<const std::int32_t> positions() const { return positions_; }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

  /// Rows of the step whose logits are wanted, slice after slice.
  std::span<const std::int32_t> logit_rows() const { return logit_rows_; }

  /// Whether some are token_of_row().
  bool any_unknown() const { return any_unknown_; }

  /// Begins another step. Its tokens may be token_of_row() of so many rows.
  void clear(std::int64_t rows_before = 0) {
    rows_before_ = rows_before;
    any_unknown_ = false;
    tokens_.clear();
    positions_.clear();
    logit_rows_.clear();
  }

  /// The tokens of a slice. Throws kFailed when its pages do not hold them, and as below.
  void append(const Slice& slice) {
    require_room(slice.position, std::ssize(slice.tokens),
                 ops::kPageTokens * std::ssize(slice.pages));
    append(slice.tokens, slice.position);
    for (std::int64_t row = size() - slice.logits; row < size(); ++row) {
      logit_rows_.push_back(static_cast<std::int32_t>(row));
    }
  }

  /// Throws kFailed when `rows` more tokens do not fit a sequence.
  static void require_room(std::int64_t length, std::int64_t rows, std::int64_t capacity) {
    core::require(length + rows <= capacity, core::ErrorKind::kFailed,
                  "the context of {} tokens is full", capacity);
  }

  /// `tokens` continue a sequence at `position`. Throws kFailed for an id outside the vocabulary.
  void append(std::span<const std::int32_t> tokens, std::int64_t position) {
    for (const std::int32_t token : tokens) {
      core::require(token >= token_of_row(rows_before_ - 1) && token < vocabulary_,
                    core::ErrorKind::kFailed, "token id {} lies outside the vocabulary of {}",
                    token, vocabulary_);
      any_unknown_ = any_unknown_ || token < 0;
      tokens_.push_back(token);
      positions_.push_back(static_cast<std::int32_t>(position++));
    }
  }

 private:
  std::int64_t vocabulary_;
  std::int64_t rows_before_ = 0;
  bool any_unknown_ = false;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> logit_rows_;
};

}  // namespace nibble::engine
