#pragma once

#include <optional>
#include <string_view>

#include "jinja/value.h"

namespace nibble::jinja {

/// float(text) as Python reads it: white space around, a sign, underscores between digits, inf,
/// infinity and nan in any case. nullopt where Python raises ValueError.
std::optional<double> parse_real(std::string_view text);

/// int(text, base). nullopt where Python raises ValueError, and for integers beyond 128 bits.
std::optional<Int> parse_integer(std::string_view text, int base);

}  // namespace nibble::jinja
