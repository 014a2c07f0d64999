#pragma once

#include <string_view>

#include "jinja/ast.h"

namespace nibble::jinja {

/// Parses a template. Throws kInvalidModel with the place for anything that is no template or
/// uses what is not supported: block, extends, include, import, autoescape, recursive loops.
Block parse_template(std::string_view source);

}  // namespace nibble::jinja
