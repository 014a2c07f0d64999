#pragma once

#include <span>

#include "text/chat/callable.h"

namespace nibble::text::chat {

/// The methods of str.
std::span<const Builtin> text_methods();

}  // namespace nibble::text::chat
