#pragma once

#include <span>

#include "jinja/callable.h"

namespace nibble::jinja {

/// The methods of str, in two tables: what it can be turned into, and what its characters are.
std::span<const Builtin> text_methods();
std::span<const Builtin> character_methods();

}  // namespace nibble::jinja
