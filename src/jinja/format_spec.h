#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "jinja/make.h"

namespace nibble::jinja {

/// How one value is laid out: the common part of "%5.2f" and "{:>5.2f}".
struct FormatSpec {
  std::string_view fill = " ";  // one code point
  char align = '\0';            // < > ^ = or 0: the type's own
  char sign = '-';              // + (always), - (negative only) or a blank
  bool alternate = false;       // 0x, 0o, 0b in front
  std::int64_t width = 0;
  char grouping = '\0';  // , or _ between thousands, or 0
  std::optional<std::int64_t> precision;
  char type = '\0';  // 0: the value's own
};

/// Reads Python's format specification mini-language. Refuses what format_value cannot do.
FormatSpec parse_format_spec(Runtime& runtime, std::string_view spec);

/// Reads the digits at spec[at], which moves past them. Refuses widths that no text needs.
std::int64_t parse_width(Runtime& runtime, std::string_view spec, std::size_t& at);

/// format(value, spec) for texts and numbers.
Value format_value(Runtime& runtime, const Value& value, const FormatSpec& spec);

}  // namespace nibble::jinja
