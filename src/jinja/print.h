#pragma once

#include <string>
#include <string_view>

#include "jinja/make.h"

// Values as text, spelled as Python spells them.
namespace nibble::jinja {

/// str(value): what {{ value }} prints. Refuses values whose Python text is a memory address.
Value to_text(Runtime& runtime, const Value& value);
void print_value(Runtime& runtime, TextBuilder& out, const Value& value);

/// repr(value): how a value looks inside a list.
void print_repr(Runtime& runtime, TextBuilder& out, const Value& value);

/// Shortest digits that read back as the same double: 1.0, 0.1, 1e+16, inf, nan.
std::string spell_float(double value);

/// `text` with & < > ' " as HTML entities; markup stays as it is.
Value escape_markup(Runtime& runtime, const Value& value);

}  // namespace nibble::jinja
