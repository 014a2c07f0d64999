#include "jinja/numbers.h"

#include <charconv>
#include <limits>
#include <string>

#include "jinja/white_space.h"

namespace nibble::jinja {
namespace {

bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) {
    text.remove_prefix(1);
  }
  return negative;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// `text` without the underscores between digits; nullopt when one stands elsewhere.
std::optional<std::string> drop_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const bool between =
        i > 0 && i + 1 < text.size() && digit_of(text[i - 1]) < 36 && digit_of(text[i + 1]) < 36;
    if (!between) {
      return std::nullopt;
    }
  }
  return out;
}

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return out;
}

// What std::from_chars calls out of range: too large, or too close to zero.
double out_of_range(std::string_view digits) {
  const bool tiny = digits.find("e-") != std::string_view::npos || digits.starts_with("0.");
  return tiny ? 0.0 : std::numeric_limits<double>::infinity();
}

int take_base_prefix(std::string_view& text, int base) {
  if (text.size() < 2 || text[0] != '0') {
    return base == 0 ? 10 : base;
  }
  const char letter = static_cast<char>(text[1] | 0x20);
  const int named = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 0;
  if (named == 0 || (base != 0 && base != named)) {
    return base == 0 ? 10 : base;
  }
  text.remove_prefix(2);
  return named;
}

}  // namespace

std::optional<double> parse_real(std::string_view text) {
  text = strip_space(text);
  const bool negative = take_sign(text);
  const auto digits = drop_underscores(lower_ascii(text));
  if (!digits.has_value() || digits->empty()) {
    return std::nullopt;
  }
  double value = 0.0;
  if (*digits == "inf" || *digits == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (*digits == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (digits->front() != '.' && digit_of(digits->front()) > 9) {
    return std::nullopt;  // from_chars would read "nan(...)" and a second sign
  } else {
    const char* end = digits->data() + digits->size();
    const auto [stop, error] = std::from_chars(digits->data(), end, value);
    if (stop != end || error == std::errc::invalid_argument) {
      return std::nullopt;
    }
    if (error == std::errc::result_out_of_range) {
      value = out_of_range(*digits);
    }
  }
  return negative ? -value : value;
}

std::optional<Int> parse_integer(std::string_view text, int base) {
  text = strip_space(text);
  const bool negative = take_sign(text);
  base = take_base_prefix(text, base);
  const auto digits = drop_underscores(text);
  if (!digits.has_value() || digits->empty()) {
    return std::nullopt;
  }
  Int value = 0;
  for (const char c : *digits) {
    const int digit = digit_of(c);
    if (digit >= base || __builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit}, &value)) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

}  // namespace nibble::jinja
