#pragma once

#include <string>
#include <string_view>

// Python's character classes and case mappings, from ICU's tables.
namespace nibble::text::chat {

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

/// First letter in title case, the rest in lower case: Python's str.capitalize().
std::string to_capitalized(std::string_view text);

/// Every letter that follows no letter in title case, the others in lower case: str.title().
std::string to_title(std::string_view text);

bool is_alphabetic(char32_t code_point);
bool is_decimal(char32_t code_point);
bool is_digit(char32_t code_point);
bool is_numeric(char32_t code_point);
bool is_cased(char32_t code_point);
bool is_upper(char32_t code_point);
bool is_lower(char32_t code_point);

/// Whether repr() shows the code point as it is.
bool is_printable(char32_t code_point);

}  // namespace nibble::text::chat
