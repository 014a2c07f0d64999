#pragma once

#include <string_view>
#include <vector>

#include "jinja/make.h"

// Python's operations on str that methods and filters share.
namespace nibble::jinja {

/// str.strip, lstrip, rstrip: without the characters of `characters` at the ends; null strips
/// white space.
std::string_view strip_text(Runtime& runtime, std::string_view text, const Value* characters,
                            bool left, bool right);

/// str.split(separator, limit); a negative limit means all. The separator is not empty.
std::vector<std::string_view> split_text(Runtime& runtime, std::string_view text,
                                         std::string_view separator, std::int64_t limit);
std::vector<std::string_view> split_text_from_right(Runtime& runtime, std::string_view text,
                                                    std::string_view separator, std::int64_t limit);

/// str.split() and str.rsplit(): at runs of white space, without empty parts.
std::vector<std::string_view> split_words(Runtime& runtime, std::string_view text,
                                          std::int64_t limit);
std::vector<std::string_view> split_words_from_right(Runtime& runtime, std::string_view text,
                                                     std::int64_t limit);

/// str.splitlines(keep_ends).
std::vector<std::string_view> split_lines(Runtime& runtime, std::string_view text, bool keep_ends);

/// str.replace(from, to, limit); a negative limit means all.
Value replace_text(Runtime& runtime, std::string_view text, std::string_view from,
                   std::string_view to, std::int64_t limit, bool markup);

/// The texts of `parts`, as a list of text values.
Value make_texts(Runtime& runtime, const std::vector<std::string_view>& parts, bool markup);

}  // namespace nibble::jinja
