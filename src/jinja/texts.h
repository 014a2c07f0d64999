#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "jinja/make.h"

// Python's operations on str. All texts are valid UTF-8.
namespace nibble::jinja {

/// What Python's str.isspace() and its regular expressions' \s call white space.
bool is_space(char32_t code_point);

/// The first byte at or after `at` that does not belong to white space.
std::size_t skip_space(std::string_view text, std::size_t at);

/// `text` without the white space at its ends.
std::string_view strip_space(std::string_view text, bool left = true, bool right = true);

/// One view per character.
std::vector<std::string_view> split_code_points(std::string_view text);

/// Linear-time search, for texts and needles chosen to hurt; npos when absent.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from = 0);

/// str.strip, lstrip, rstrip: without the characters of `characters` at the ends; null strips
/// white space.
std::string_view strip_text(Runtime& runtime, std::string_view text, const Value* characters,
                            bool left, bool right);

/// str.split(separator, limit); a negative limit means all. The separator is not empty.
std::vector<std::string_view> split_text(Runtime& runtime, std::string_view text,
                                         std::string_view separator, std::int64_t limit);

/// str.split(): at runs of white space, without empty parts.
std::vector<std::string_view> split_words(Runtime& runtime, std::string_view text,
                                          std::int64_t limit);

/// str.splitlines().
std::vector<std::string_view> split_lines(Runtime& runtime, std::string_view text);

/// str.replace(from, to, limit); a negative limit means all.
Value replace_text(Runtime& runtime, std::string_view text, std::string_view from,
                   std::string_view to, std::int64_t limit);

}  // namespace nibble::jinja
