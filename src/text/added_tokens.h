#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/text_hash.h"
#include "text/byte_trie.h"
#include "text/normalize/normalizer.h"
#include "text/span.h"

namespace nibble::text {

/// A token that is found in the text before the model sees it.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  // only between characters that are not of words
  bool lstrip = false;       // takes the White_Space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // its normalized form is looked for in the normalized text
  bool special = false;      // control tokens: left out of decoded text
};

/// The added tokens of a tokenizer. Immutable.
class AddedTokens {
 public:
  AddedTokens() = default;

  /// `normalizer` may be null. Throws kInvalidModel, naming `what`, for an empty or over-long
  /// content and for an id or a content that stands twice.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer, std::string_view what);

  /// A stretch of a text: a token (id >= 0) or what lies between two.
  struct Piece {
    Span span;
    std::int32_t id = -1;
  };

  /// Cuts a raw text at the tokens that are not `normalized`; the leftmost first, of those the
  /// longest. `parse_special` false leaves the special ones as text.
  std::vector<Piece> split_raw(std::string_view text, bool parse_special) const;
  /// Cuts a normalized text at those that are.
  std::vector<Piece> split_normalized(std::string_view text, bool parse_special) const;

  const AddedToken* find(std::int32_t id) const;
  std::optional<std::int32_t> id_of(std::string_view content) const;
  /// The string that a decoder gets: the normalized form if there is one.
  std::string_view decoder_input(std::int32_t id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }
  /// One more than the largest id; 0 without tokens.
  std::int64_t end_id() const { return end_id_; }

 private:
  std::vector<Piece> split(std::string_view text, const ByteTrie& trie, bool parse_special) const;
  bool fits(const AddedToken& token, std::string_view text, Span span, bool parse_special) const;

  std::vector<AddedToken> tokens_;
  std::vector<std::string>
      normalized_;  // forms of tokens_, equal to the content where not normalized
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  std::unordered_map<std::string, std::size_t, core::TextHash, std::equal_to<>> by_content_;
  std::int64_t end_id_ = 0;
  ByteTrie raw_trie_;  // values are indices of tokens_
  ByteTrie normalized_trie_;
};

}  // namespace nibble::text
