#include "characters/utf8.h"
#include "jinja/lexer.h"
#include "jinja/numbers.h"

namespace nibble::jinja {
namespace {

bool is_digit_of(char c, int base) {
  if (base <= 10) {
    return c >= '0' && c < '0' + base;
  }
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

int digit_value(char c) {
  return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

// Bytes of digits at text[at], single underscores between them; 0 when there is no digit.
// A leading underscore is allowed after a base prefix.
std::size_t digits_length(std::string_view text, std::size_t at, int base,
                          bool leading_underscore) {
  std::size_t end = at;
  bool may_skip = leading_underscore;
  while (end < text.size()) {
    if (is_digit_of(text[end], base)) {
      ++end;
    } else if (may_skip && text[end] == '_' && end + 1 < text.size() &&
               is_digit_of(text[end + 1], base)) {
      end += 2;
    } else {
      break;
    }
    may_skip = true;
  }
  return end - at;
}

int literal_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') {
    return 10;
  }
  switch (text[1] | 0x20) {
    case 'b':
      return 2;
    case 'o':
      return 8;
    case 'x':
      return 16;
    default:
      return 10;
  }
}

char32_t hex_escape(std::string_view literal, std::size_t& at, std::size_t digits, Position place) {
  char32_t code = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at) {
    if (at >= literal.size() || !is_digit_of(literal[at], 16)) {
      fail_at(place, "a string has an escape with too few hexadecimal digits");
    }
    code = code * 16 + static_cast<char32_t>(digit_value(literal[at]));
  }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
    fail_at(place, "a string has an escape that is no character");
  }
  return code;
}

char32_t octal_escape(std::string_view literal, std::size_t& at) {
  char32_t code = 0;
  for (int i = 0; i < 3 && at < literal.size() && is_digit_of(literal[at], 8); ++i, ++at) {
    code = code * 8 + static_cast<char32_t>(digit_value(literal[at]));
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
  } else if (is_digit_of(letter, 8)) {
    characters::append_utf8(out, octal_escape(literal, at));
  } else if (letter == 'x' || letter == 'u' || letter == 'U') {
    ++at;
    characters::append_utf8(out, hex_escape(literal, at,
                                            letter == 'x'   ? 2
                                            : letter == 'u' ? 4
                                                            : 8,
                                            place));
  } else if (letter == 'N') {
    fail_at(place, "characters by name (\\N{{...}}) are not supported in strings");
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

std::size_t integer_literal_length(std::string_view text) {
  const int base = literal_base(text);
  if (base != 10) {
    const std::size_t digits = digits_length(text, 2, base, true);
    return digits == 0 ? 1 : 2 + digits;
  }
  if (text.empty() || !is_digit_of(text[0], 10)) {
    return 0;
  }
  if (text[0] != '0') {
    return digits_length(text, 0, 10, false);
  }
  return digits_length(text, 0, 1, false);  // zeros only: 007 is no number
}

std::size_t float_literal_length(std::string_view text) {
  std::size_t end = digits_length(text, 0, 10, false);
  if (end == 0) {
    return 0;
  }
  bool is_float = false;
  if (end < text.size() && text[end] == '.') {
    const std::size_t fraction = digits_length(text, end + 1, 10, false);
    if (fraction == 0) {
      return 0;
    }
    end += 1 + fraction;
    is_float = true;
  }
  if (end < text.size() && (text[end] | 0x20) == 'e') {
    const bool sign = end + 1 < text.size() && (text[end + 1] == '+' || text[end + 1] == '-');
    const std::size_t from = end + (sign ? 2 : 1);
    const std::size_t exponent = digits_length(text, from, 10, false);
    if (exponent > 0) {
      end = from + exponent;
      is_float = true;
    }
  }
  return is_float ? end : 0;
}

Value parse_integer_literal(std::string_view literal, Position at) {
  const int base = literal_base(literal);
  Int value = 0;
  for (const char c : literal.substr(base == 10 ? 0 : 2)) {
    if (c == '_') {
      continue;
    }
    if (__builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit_value(c)}, &value)) {
      fail_at(at, "the integer {} is too large", core::printable(literal, 40));
    }
  }
  return Value::integer(value);
}

Value parse_float_literal(std::string_view literal) {
  return Value::real(parse_real(literal).value_or(0.0));
}

}  // namespace nibble::jinja
