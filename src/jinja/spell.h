#pragma once

#include <string>

#include "jinja/make.h"

// Values as text, as Python spells them.
namespace nibble::jinja {

/// str(value): what {{ value }} prints. Refuses values whose Python text is a memory address.
Value to_text(Runtime& runtime, const Value& value);
void print_value(Runtime& runtime, TextBuilder& out, const Value& value);

/// How values inside of others are spelled: by repr(), or by json.dumps().
struct Spelling {
  bool json = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  Int indent = -1;  // spaces of each level; negative: all in one line
  bool ensure_ascii = false;
  bool sort_keys = false;
};

/// repr(value) or json.dumps(value). Refuses what has no such form, for JSON undefined values too.
Value spell(Runtime& runtime, const Value& value, const Spelling& spelling);

}  // namespace nibble::jinja
