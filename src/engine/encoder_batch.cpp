#include "engine/encoder_batch.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "engine/step_size.h"

namespace nibble::engine {

using core::ErrorKind;

std::int64_t EncoderBatch::rows_of(std::int64_t text) const {
  const auto i = static_cast<std::size_t>(text);
  return (i + 1 < firsts_.size() ? firsts_[i + 1] : rows()) - firsts_[i];
}

void EncoderBatch::clear() {
  tokens_.clear();
  positions_.clear();
  types_.clear();
  firsts_.clear();
}

void EncoderBatch::append(const EncoderText& text) {
  const models::NetworkConfig& config = network_.config;
  const std::int64_t count = std::ssize(text.tokens);
  core::require(count > 0, ErrorKind::kUsage, "a text without tokens has no states");
  core::require(count <= config.max_positions, ErrorKind::kUsage,
                "a text of {} tokens is longer than the {} that the model has positions for", count,
                config.max_positions);
  firsts_.push_back(static_cast<std::int32_t>(rows()));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t token = text.tokens[static_cast<std::size_t>(i)];
    core::require(token >= 0 && token < config.vocabulary, ErrorKind::kFailed,
                  "token id {} lies outside the vocabulary of {}", token, config.vocabulary);
    tokens_.push_back(token);
    positions_.push_back(static_cast<std::int32_t>(i));
  }
  append_types(text);
}

void EncoderBatch::append_types(const EncoderText& text) {
  if (text.types.empty()) {
    types_.resize(tokens_.size());
    return;
  }
  const core::Tensor& table = network_.embeddings.types;
  const std::int64_t known = table.empty() ? 1 : table.dim(0);
  core::require(text.types.size() == text.tokens.size(), ErrorKind::kUsage,
                "{} token types for {} tokens", text.types.size(), text.tokens.size());
  for (const std::int32_t type : text.types) {
    core::require(type >= 0 && type < known, ErrorKind::kUsage,
                  "token type {}: the model knows types 0 to {}", type, known - 1);
    types_.push_back(type);
  }
}

void fill_up(EncoderBatch& batch) {
  static constexpr std::array<std::int32_t, 64> kPadding{};
  const std::int64_t longest = std::min(std::ssize(kPadding), batch.max_tokens());
  for (std::int64_t missing = padded_tokens(batch.rows()) - batch.rows(); missing > 0;) {
    const auto count = static_cast<std::size_t>(std::min(missing, longest));
    batch.append({std::span(kPadding).first(count), {}});
    missing -= static_cast<std::int64_t>(count);
  }
}

}  // namespace nibble::engine
