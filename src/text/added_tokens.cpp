#include "text/added_tokens.h"

#include <algorithm>

#include "characters/properties.h"
#include "characters/utf8.h"
#include "core/error.h"

namespace nibble::text {
namespace {

// Where the white space before `end` begins, but not before `least`.
std::size_t space_begin(std::string_view text, std::size_t end, std::size_t least) {
  while (end > least) {
    const characters::CodePoint c = characters::decode_utf8_before(text, end);
    if (!characters::is_white_space(c.value)) {
      break;
    }
    end -= c.bytes;
  }
  return end;
}

std::size_t space_end(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const characters::CodePoint c = characters::decode_utf8(text, begin);
    if (!characters::is_white_space(c.value)) {
      break;
    }
    begin += c.bytes;
  }
  return begin;
}

bool is_between_words(std::string_view text, Span span) {
  const bool word_before =
      span.begin > 0 &&
      characters::is_word_character(characters::decode_utf8_before(text, span.begin).value);
  const bool word_behind =
      span.end < text.size() &&
      characters::is_word_character(characters::decode_utf8(text, span.end).value);
  return !word_before && !word_behind;
}

void check(const AddedToken& token, std::string_view what) {
  using core::ErrorKind;
  core::require(!token.content.empty(), ErrorKind::kInvalidModel,
                "{}: the added token with id {} is an empty string", what, token.id);
  core::require(token.content.size() <= ByteTrie::kMaxKeyBytes, ErrorKind::kInvalidModel,
                "{}: the added token with id {} has {} bytes, more than {}", what, token.id,
                token.content.size(), ByteTrie::kMaxKeyBytes);
}

std::string normalized_form(const AddedToken& token, const Normalizer& normalizer,
                            PatternBudget& budget, std::string_view what) {
  const NormalizeScope scope{
      .at_origin = true, .max_bytes = ByteTrie::kMaxKeyBytes, .budget = &budget};
  budget.add_bytes(token.content.size());
  try {
    return normalizer.apply(token.content, scope);
  } catch (const core::Error& error) {
    core::fail(core::ErrorKind::kInvalidModel, "{}: the added token '{}' cannot be normalized ({})",
               what, core::printable(token.content), error.what());
  }
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer,
                         std::string_view what)
    : tokens_(std::move(tokens)) {
  using core::ErrorKind;
  normalized_.reserve(tokens_.size());
  PatternBudget budget;
  std::vector<ByteTrie::Entry> raw;
  std::vector<ByteTrie::Entry> normalized;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    check(token, what);
    end_id_ = std::max(end_id_, std::int64_t{token.id} + 1);
    core::require(by_id_.try_emplace(token.id, i).second, ErrorKind::kInvalidModel,
                  "{}: two added tokens have the id {}", what, token.id);
    core::require(by_content_.try_emplace(token.content, i).second, ErrorKind::kInvalidModel,
                  "{}: the added token '{}' stands twice", what, core::printable(token.content));
    normalized_.push_back(token.normalized && normalizer != nullptr
                              ? normalized_form(token, *normalizer, budget, what)
                              : token.content);
    if (!normalized_.back().empty()) {
      (token.normalized ? normalized : raw)
          .push_back({normalized_.back(), static_cast<std::int32_t>(i)});
    }
  }
  raw_trie_ = ByteTrie(std::move(raw));
  normalized_trie_ = ByteTrie(std::move(normalized));
}

std::vector<AddedTokens::Piece> AddedTokens::split_raw(std::string_view text,
                                                       bool parse_special) const {
  return split(text, raw_trie_, parse_special);
}

std::vector<AddedTokens::Piece> AddedTokens::split_normalized(std::string_view text,
                                                              bool parse_special) const {
  return split(text, normalized_trie_, parse_special);
}

bool AddedTokens::fits(const AddedToken& token, std::string_view text, Span span,
                       bool parse_special) const {
  return (parse_special || !token.special) && (!token.single_word || is_between_words(text, span));
}

// A token that is found but does not fit is skipped as a whole, as Hugging Face's tokenizers do:
// the search goes on behind it.
std::vector<AddedTokens::Piece> AddedTokens::split(std::string_view text, const ByteTrie& trie,
                                                   bool parse_special) const {
  std::vector<Piece> pieces;
  std::size_t covered = 0;
  std::size_t space_until = 0;  // what lies between a token and this is white space
  for (std::size_t at = 0; at < text.size() && !trie.empty();) {
    const auto found = trie.longest_prefix(text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found->value)];
    Span span = {at, at + found->bytes};
    at = span.end;
    if (!fits(token, text, span, parse_special)) {
      continue;
    }
    if (token.lstrip) {
      span.begin = std::min(span.end, std::max(covered, space_begin(text, span.begin, covered)));
    }
    if (token.rstrip) {
      space_until = std::max(space_until, span.end);
      space_until = space_end(text, space_until);
      span.end = space_until;
    }
    if (covered < span.begin) {
      pieces.push_back({{covered, span.begin}, -1});
    }
    pieces.push_back({span, token.id});
    covered = span.end;
  }
  if (covered < text.size()) {
    pieces.push_back({{covered, text.size()}, -1});
  }
  return pieces;
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

std::optional<std::int32_t> AddedTokens::id_of(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? std::nullopt : std::optional(tokens_[found->second].id);
}

std::string_view AddedTokens::decoder_input(std::int32_t id) const {
  return normalized_[by_id_.at(id)];
}

}  // namespace nibble::text
