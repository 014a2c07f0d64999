#pragma once

#include <string>
#include <string_view>

#include "core/json_type.h"
#include "models/exchange/conversion.h"

namespace nibble::cli {

/// What became of the layers of a model that was written for other programs, and what that changed:
/// the fields of --json.
core::Json conversion_json(std::string_view to, const models::Conversion& conversion);

/// The same as lines for people.
std::string conversion_text(const models::Conversion& conversion);

}  // namespace nibble::cli
