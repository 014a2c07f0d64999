#include "jinja/format_spec.h"

#include <cmath>

#include <fmt/format.h>

#include "characters/utf8.h"
#include "jinja/print.h"

namespace nibble::jinja {
namespace {

constexpr std::int64_t kMaxWidth = 10'000;
constexpr std::int64_t kMaxPrecision = 400;

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

// The digits of a number without its sign, and what stands before them.
struct Digits {
  bool negative = false;
  std::string prefix;
  std::string text;
};

Digits integer_digits(const FormatSpec& spec, Int value) {
  Digits digits;
  digits.negative = value < 0;
  // The magnitude as unsigned, so that the smallest integer has one too.
  const auto bits = static_cast<UnsignedInt>(value);
  const UnsignedInt magnitude = digits.negative ? 0 - bits : bits;
  switch (spec.type) {
    case 'x':
      digits.text = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      digits.text = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      digits.text = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      digits.text = fmt::format("{:b}", magnitude);
      break;
    default:
      digits.text = fmt::format("{}", magnitude);
      return digits;
  }
  digits.prefix = spec.alternate ? std::string{'0', spec.type} : std::string();
  return digits;
}

std::string upper_ascii(std::string text) {
  for (char& c : text) {
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return text;
}

std::string real_text(Runtime& runtime, const FormatSpec& spec, double magnitude) {
  const std::int64_t precision = spec.precision.value_or(6);
  switch (spec.type) {
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'e':
    case 'E':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'g':
    case 'G':
      return fmt::format("{:.{}g}", magnitude, precision == 0 ? 1 : precision);
    case '%':
      return fmt::format("{:.{}f}", magnitude * 100.0, precision) +
             (std::isfinite(magnitude) ? "%" : "");
    default:
      runtime.require(!spec.precision.has_value(),
                      "a format with a precision needs a type, as in '.2f'");
      return spell_float(magnitude);
  }
}

Digits real_digits(Runtime& runtime, const FormatSpec& spec, double value) {
  runtime.require(!spec.alternate, "'#' is not supported in formats of floats");
  Digits digits;
  digits.negative = std::signbit(value) && !std::isnan(value);
  digits.text = real_text(runtime, spec, std::fabs(value));
  if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G') {
    digits.text = upper_ascii(std::move(digits.text));
  }
  return digits;
}

// Thousands apart in the digits before the point.
std::string grouped(std::string_view text, char separator) {
  const std::size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) {
      out.push_back(separator);
    }
    out.push_back(text[i]);
  }
  return out.append(text.substr(whole));
}

// `sign` stays in front of the filling when the alignment is '='.
Value pad(Runtime& runtime, const FormatSpec& spec, std::string_view sign, std::string_view text,
          char default_align) {
  const char align = spec.align == '\0' ? default_align : spec.align;
  const Int missing = std::max<Int>(
      Int{spec.width} - characters::count_code_points(sign) - characters::count_code_points(text),
      0);
  const Int before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  TextBuilder out(runtime);
  out.add(align == '=' ? sign : "");
  out.repeat(spec.fill, before);
  out.add(align == '=' ? "" : sign).add(text);
  out.repeat(spec.fill, missing - before);
  return out.value();
}

Value format_number(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  constexpr std::string_view kIntegerTypes = "dboxX";
  constexpr std::string_view kRealTypes = "eEfFgG%";
  const bool real_type = spec.type != '\0' && kRealTypes.find(spec.type) != std::string_view::npos;
  const bool integer_type =
      spec.type != '\0' && kIntegerTypes.find(spec.type) != std::string_view::npos;
  runtime.require(spec.type == '\0' || real_type || integer_type,
                  "the format type '{}' is not supported for a {}",
                  core::printable({&spec.type, 1}), value.type_name());
  const bool as_integer = value.is_integral() && !real_type;
  runtime.require(as_integer || !integer_type, "the format type '{}' needs an integer",
                  core::printable({&spec.type, 1}));
  runtime.require(!as_integer || !spec.precision.has_value(),
                  "a format of an integer has no precision");
  const Digits digits = as_integer ? integer_digits(spec, value.integral())
                                   : real_digits(runtime, spec, value.number());
  std::string sign = digits.negative ? "-" : spec.sign == '-' ? "" : std::string{spec.sign};
  const std::string text =
      spec.grouping == '\0' ? digits.text : grouped(digits.text, spec.grouping);
  return pad(runtime, spec, sign + digits.prefix, text, '>');
}

Value format_string(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  runtime.require(spec.type == '\0' || spec.type == 's', "the format type '{}' needs a number",
                  core::printable({&spec.type, 1}));
  runtime.require(spec.align != '=' && spec.sign == '-' && !spec.alternate && spec.grouping == '\0',
                  "this format is for numbers");
  std::string_view text = value.bytes();
  if (spec.precision.has_value()) {
    text = text.substr(0, characters::byte_of_code_point(text, *spec.precision));
  }
  return pad(runtime, spec, "", text, '<');
}

}  // namespace

std::int64_t parse_width(Runtime& runtime, std::string_view spec, std::size_t& at) {
  std::int64_t width = 0;
  for (; at < spec.size() && spec[at] >= '0' && spec[at] <= '9'; ++at) {
    width = width * 10 + (spec[at] - '0');
    runtime.require(width <= kMaxWidth, "a format asks for more than {} characters", kMaxWidth);
  }
  return width;
}

FormatSpec parse_format_spec(Runtime& runtime, std::string_view spec) {
  FormatSpec result;
  std::size_t at = 0;
  const auto sees = [&](std::string_view characters) {
    return at < spec.size() && characters.find(spec[at]) != std::string_view::npos;
  };
  const std::size_t first = spec.empty() ? 0 : characters::utf8_bytes(spec[0]);
  if (first < spec.size() && is_align(spec[first])) {
    result.fill = spec.substr(0, first);
    result.align = spec[first];
    at = first + 1;
  } else if (sees("<>^=")) {
    result.align = spec[at++];
  }
  if (sees("+- ")) {
    result.sign = spec[at++];
  }
  if (sees("#")) {
    result.alternate = true;
    ++at;
  }
  if (sees("0")) {
    if (result.align == '\0') {
      result.fill = "0";
      result.align = '=';
    }
    ++at;
  }
  result.width = parse_width(runtime, spec, at);
  if (sees(",_")) {
    result.grouping = spec[at++];
  }
  if (sees(".")) {
    const std::size_t digits = ++at;
    result.precision = parse_width(runtime, spec, at);
    runtime.require(at > digits && *result.precision <= kMaxPrecision,
                    "a format needs a precision of 0 to {} after '.'", kMaxPrecision);
  }
  if (at < spec.size()) {
    result.type = spec[at++];
  }
  runtime.require(at == spec.size(), "the format '{}' is not supported", core::printable(spec, 40));
  return result;
}

Value format_value(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  if (value.is_string()) {
    return format_string(runtime, value, spec);
  }
  runtime.require(value.is_number(), "a {} cannot be formatted", value.type_name());
  return format_number(runtime, value, spec);
}

}  // namespace nibble::jinja
