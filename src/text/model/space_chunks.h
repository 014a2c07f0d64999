#pragma once

#include <string_view>

namespace nibble::text {

/// SentencePiece's visible space, U+2581.
inline constexpr std::string_view kVisibleSpace = "\u2581";

/// Whether `token` has a visible space behind another character: then merges can reach across the
/// start of a word.
bool spans_word_start(std::string_view token);

/// Calls visit(chunk) for the stretches of `text` between the places where a visible space follows
/// another character. When no token spans such a place, each chunk can be encoded on its own: the
/// result is the same, and repeated words are found in a cache.
template <typename Visit>
void for_each_space_chunk(std::string_view text, Visit visit) {
  std::size_t begin = 0;
  std::size_t at = 0;
  while (begin < text.size()) {
    while (text.substr(at).starts_with(kVisibleSpace)) {
      at += kVisibleSpace.size();
    }
    const std::size_t found = text.find(kVisibleSpace, at);
    const std::size_t end = found == std::string_view::npos ? text.size() : found;
    visit(text.substr(begin, end - begin));
    begin = at = end;
  }
}

}  // namespace nibble::text
