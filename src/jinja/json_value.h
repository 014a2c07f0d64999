#pragma once

#include <nlohmann/json.hpp>

#include "jinja/make.h"

namespace nibble::jinja {

/// The template's view of a JSON value. Adds the bytes of its texts, and some for each value, to
/// `bytes`: what the budget grows with. Throws kUsage for text that is not UTF-8 and for nesting
/// deeper than kMaxValueDepth.
Value from_json(const nlohmann::ordered_json& json, std::int64_t& bytes);

/// How Python's json.dumps lays out its text.
struct JsonStyle {
  const Value* indent = nullptr;  // none: one line; a number of spaces; or the text to indent with
  const Value* item_separator = nullptr;  // default ", ", with an indent ","
  const Value* key_separator = nullptr;   // default ": "
  bool ensure_ascii = false;
  bool sort_keys = false;
};

/// json.dumps(value). Refuses what JSON cannot hold: undefined values, generators, functions.
Value dump_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace nibble::jinja
