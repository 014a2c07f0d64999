#pragma once

#include "jinja/callable.h"

namespace nibble::jinja {

/// text % values: printf-style formatting with one value, a tuple of them, or a dict for %(name)s.
Value format_percent(Runtime& runtime, const Value& text, const Value& values);

/// text.format(...): {} {0} {name} {0.attribute} {0[key]}, !r and !s, and format specifications.
Value format_braces(Runtime& runtime, const Value& text, const Arguments& arguments);

}  // namespace nibble::jinja
