#include <algorithm>
#include <charconv>

#include "characters/utf8.h"
#include "jinja/lexer.h"

namespace nibble::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int hex_value(char c) {
  return is_digit(c)                              ? c - '0'
         : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                  : -1;
}

std::size_t digits_length(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

char32_t hex_escape(std::string_view literal, std::size_t& at, std::size_t digits, Position place) {
  char32_t code = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at) {
    if (at >= literal.size() || hex_value(literal[at]) < 0) {
      fail_at(place, "a string has an escape with too few hexadecimal digits");
    }
    code = code * 16 + static_cast<char32_t>(hex_value(literal[at]));
  }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
    fail_at(place, "a string has an escape that is no character");
  }
  return code;
}

// The character that a one-letter escape stands for, 0 when it is none.
char simple_escape(char letter) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  const std::size_t at = kLetters.find(letter);
  return at == std::string_view::npos ? '\0' : kMeanings[at];
}

void append_escape(std::string& out, std::string_view literal, std::size_t& at, Position place) {
  const char letter = literal[at];
  if (const char meaning = simple_escape(letter); meaning != '\0') {
    out.push_back(meaning);
    ++at;
  } else if (letter == '\n') {
    ++at;
  } else if (letter == 'x' || letter == 'u' || letter == 'U') {
    const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    characters::append_utf8(out, hex_escape(literal, ++at, digits, place));
  } else if (letter == 'N' || is_digit(letter)) {
    fail_at(place, "the escape '\\{}' is not supported by Nibble's templates", letter);
  } else {
    out.push_back('\\');  // Python keeps the backslash of an unknown escape
  }
}

}  // namespace

std::string unescape_literal(std::string_view literal, Position at) {
  std::string out;
  for (std::size_t i = 0; i < literal.size();) {
    if (literal[i] == '\\' && i + 1 < literal.size()) {
      ++i;
      append_escape(out, literal, i, at);
    } else {
      out.push_back(literal[i++]);
    }
  }
  return out;
}

std::size_t number_length(std::string_view text) {
  std::size_t end = digits_length(text);
  if (end > 0 && text.substr(end).starts_with('.')) {
    const std::size_t fraction = digits_length(text.substr(end + 1));
    end += fraction > 0 ? 1 + fraction : 0;
  }
  return end;
}

Value parse_number(std::string_view literal, Position at) {
  const char* const end = literal.data() + literal.size();
  const bool fraction = literal.find('.') != std::string_view::npos;
  double real = 0;
  std::int64_t integer = 0;
  const auto result = fraction ? std::from_chars(literal.data(), end, real)
                               : std::from_chars(literal.data(), end, integer);
  if (result.ec != std::errc()) {
    fail_at(at, "the number {} is too large", core::printable(literal, 40));
  }
  return fraction ? Value::real(real) : Value::integer(integer);
}

}  // namespace nibble::jinja
