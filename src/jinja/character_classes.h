#pragma once

// Python's classes of characters, from ICU's tables.
namespace nibble::jinja {

bool is_alphabetic(char32_t code_point);
bool is_decimal(char32_t code_point);
bool is_digit(char32_t code_point);
bool is_numeric(char32_t code_point);
bool is_cased(char32_t code_point);
bool is_upper(char32_t code_point);
bool is_lower(char32_t code_point);

/// Whether repr() shows the code point as it is.
bool is_printable(char32_t code_point);

}  // namespace nibble::jinja
