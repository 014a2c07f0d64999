#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/encoder.h"
#include "models/model.h"

namespace nibble::engine {

/// Texts that an encoder computes together: their tokens one after another, and where each begins.
class EncoderBatch {
 public:
  explicit EncoderBatch(const models::Network& network) : network_(network) {}

  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::span<const std::int32_t> positions() const { return positions_; }
  std::span<const std::int32_t> types() const { return types_; }
  /// The row of each text's first token.
  std::span<const std::int32_t> firsts() const { return firsts_; }
  std::int64_t rows() const { return std::ssize(tokens_); }
  /// Tokens of a text.
  std::int64_t rows_of(std::int64_t text) const;
  /// Tokens of the longest text that may be appended.
  std::int64_t max_tokens() const { return network_.config.max_positions; }

  void clear();

  /// Throws kUsage for a text that is empty or too long and for types that the model does not know,
  /// kFailed for token ids outside the vocabulary.
  void append(const EncoderText& text);

 private:
  void append_types(const EncoderText& text);

  const models::Network& network_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> types_;
  std::vector<std::int32_t> firsts_;
};

/// Appends texts of token 0, whose results nobody reads, up to one of few sizes (step_size.h).
void fill_up(EncoderBatch& batch);

}  // namespace nibble::engine
