#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/model/model.h"

namespace nibble::text {

/// "WordPiece" of tokenizer.json.
struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  std::int64_t max_input_chars_per_word = 100;  // longer words are unk_token
};

/// The longest token first, from left to right; a word that cannot be spelled is unk_token
/// (Wu et al. 2016, arXiv 1609.08144).
WordModelPtr make_word_piece(TokenTable tokens, const WordPieceOptions& options,
                             std::string_view what);

/// Each word is a token or unk_token.
WordModelPtr make_word_level(TokenTable tokens, std::string unk_token, std::string_view what);

}  // namespace nibble::text
