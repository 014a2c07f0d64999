#include "tune/qat/student_batch.h"

#include "core/error.h"
#include "ops/gradient/attention_scores.h"

namespace nibble::tune {
namespace {

using ops::gradient::RowRange;

// What a decoder reads while it writes: the token before it, and all that it writes but the last.
// Behind an encoder the first is the start token; else it is the one token that was read.
std::vector<std::int32_t> before_each(const LabelledText& text, const models::Network& network) {
  std::vector<std::int32_t> tokens;
  if (network.has_encoder()) {
    tokens.push_back(network.config.decoder_start.value());
  } else {
    core::require(text.tokens.size() == 1, core::ErrorKind::kUsage,
                  "a decoder continues one token, not {}", text.tokens.size());
    tokens = text.tokens;
  }
  tokens.insert(tokens.end(), text.written.begin(), text.written.end() - 1);
  return tokens;
}

}  // namespace

StudentBatch::StudentBatch(const models::Network& network,
                           std::span<const LabelledText* const> texts)
    : read(network), written(network) {
  std::vector<RowRange> own;
  std::vector<RowRange> answers;
  for (const LabelledText* text : texts) {
    if (network.has_encoder()) {
      own.push_back({read.rows(), std::ssize(text->tokens)});
      read.append({text->tokens, text->types});
    }
    if (!network.has_decoder()) {
      labels.push_back(text->label);
      continue;
    }
    core::require(!text->written.empty(), core::ErrorKind::kUsage,
                  "a text that a decoder is to write has no token");
    answers.push_back({written.rows(), std::ssize(text->written)});
    written.append({before_each(*text, network), {}});
    if (network.has_encoder()) {
      memory_rows.push_back({answers.back(), own.back()});
    }
    for (const std::int32_t token : text->written) {
      labels.push_back({token, 0.0f});
    }
  }
  read_rows = ops::gradient::reading_themselves(own);
  written_rows = ops::gradient::reading_themselves(answers);
}

}  // namespace nibble::tune
