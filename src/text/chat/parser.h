#pragma once

#include <string_view>

#include "text/chat/ast.h"

namespace nibble::text::chat {

/// Parses a template. Throws kInvalidModel with the place for anything that is no template or
/// uses what is not supported: block, extends, include, import, autoescape, recursive loops.
Block parse_template(std::string_view source);

}  // namespace nibble::text::chat
