#pragma once

#include <string>
#include <string_view>

#include "core/json_type.h"

namespace nibble::text {

/// The "type" of a part of tokenizer.json. Throws kInvalidModel naming `what` when it is missing.
std::string part_type(const core::Json& json, std::string_view what);

/// The array `key` of `json`, at most kMaxParts long: the steps of a "Sequence".
const core::Json& part_list(const core::Json& json, std::string_view key, std::string_view what);

/// Steps that one sequence may have.
inline constexpr std::size_t kMaxParts = 64;

/// A flag that must be there, as Hugging Face's reader demands.
bool get_bool(const core::Json& json, std::string_view key, std::string_view what);

/// A pattern of "Split" and "Replace": {"String": ...} or {"Regex": ...}.
struct PatternField {
  std::string text;
  bool is_regex = false;
};
PatternField get_pattern(const core::Json& json, std::string_view what);

/// A string of exactly one character.
std::string get_character(const core::Json& json, std::string_view key, std::string_view what);

/// What `Replace` puts in place of a match: a string of at most 256 bytes, so that a file cannot
/// ask for texts that grow without bound.
std::string get_replacement(const core::Json& json, std::string_view what);

/// The bytes of a base64 string (RFC 4648, padding optional). Throws kInvalidModel.
std::string decode_base64(std::string_view text, std::string_view what);

}  // namespace nibble::text
