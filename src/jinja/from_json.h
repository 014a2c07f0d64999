#pragma once

#include <nlohmann/json_fwd.hpp>

#include "jinja/value.h"

namespace nibble::jinja {

/// The template's view of a JSON value. Adds the bytes of its texts, and some for each value, to
/// `bytes`: what the budget grows with. Throws kUsage for text that is not UTF-8 and for nesting
/// deeper than kMaxValueDepth.
Value from_json(const nlohmann::ordered_json& json, std::int64_t& bytes);

}  // namespace nibble::jinja
