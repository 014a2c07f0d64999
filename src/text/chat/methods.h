#pragma once

#include <span>

#include "text/chat/callable.h"

namespace nibble::text::chat {

/// The methods of str, in two tables: what it can be turned into, and what its characters are.
std::span<const Builtin> text_methods();
std::span<const Builtin> character_methods();

}  // namespace nibble::text::chat
