#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Python's white space, and searches in text. All texts are valid UTF-8.
namespace nibble::jinja {

/// One view per code point.
std::vector<std::string_view> split_code_points(std::string_view text);

/// What Python's str.isspace() and its regular expressions' \s call white space.
bool is_space(char32_t code_point);

/// The first byte at or after `at` that does not belong to white space.
std::size_t skip_space(std::string_view text, std::size_t at);

/// `text` without the white space at its ends.
std::string_view strip_space(std::string_view text, bool left = true, bool right = true);

/// Linear-time search, for texts and needles chosen to hurt; npos when absent.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from = 0);

/// Where the last occurrence of `needle` starts; npos when absent. Linear time too.
std::size_t find_last_bytes(std::string_view text, std::string_view needle);

}  // namespace nibble::jinja
