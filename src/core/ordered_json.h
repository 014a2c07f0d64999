#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "core/json_type.h"

namespace nibble::core {

/// parse_json (core/json.h) that keeps the order. Takes time in proportion to the text, which the
/// parser of OrderedJson does not: it looks through all keys of an object for each that it adds.
OrderedJson parse_ordered_json(std::string_view text, std::string_view what);

}  // namespace nibble::core
