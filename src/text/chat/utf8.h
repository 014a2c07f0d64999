#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Python counts, slices and compares text by code points; values hold UTF-8. Except for is_valid,
// everything here expects valid UTF-8.
namespace nibble::text::chat {

bool is_valid_utf8(std::string_view text);

/// Bytes of the code point that starts with `lead`.
std::size_t code_point_bytes(char lead);

std::int64_t count_code_points(std::string_view text);

/// Where code point number `index` starts; text.size() past the end.
std::size_t byte_of_code_point(std::string_view text, std::int64_t index);

/// The code point at byte `at`, which moves to the next one.
char32_t next_code_point(std::string_view text, std::size_t& at);

void append_code_point(std::string& text, char32_t code_point);

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

}  // namespace nibble::text::chat
