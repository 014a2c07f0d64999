#pragma once

#include <string>

#include "jinja/make.h"

// Values as text, spelled as Python spells them.
namespace nibble::jinja {

/// str(value): what {{ value }} prints. Refuses values whose Python text is a memory address.
Value to_text(Runtime& runtime, const Value& value);
void print_value(Runtime& runtime, TextBuilder& out, const Value& value);

/// Shortest digits that read back as the same double: 1.0, 0.1, 1e+16, inf, nan.
std::string spell_float(double value);

}  // namespace nibble::jinja
