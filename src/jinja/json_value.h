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
  Int indent = -1;  // spaces of each level; negative: all in one line
  std::string item_separator;
  std::string key_separator;
  bool ensure_ascii = false;
  bool sort_keys = false;
};

/// json.dumps(value). Refuses what JSON cannot hold: undefined values, generators, functions.
Value dump_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace nibble::jinja
