#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_type.h"

namespace nibble::core {

inline constexpr int kMaxJsonDepth = 64;

/// Parses one JSON document (RFC 8259). `what` names it in messages ("config.json").
/// Throws kInvalidModel for anything malformed: bad syntax, invalid UTF-8, more than kMaxJsonDepth
/// levels, a key that stands twice in one object, trailing bytes.
Json parse_json(std::string_view text, std::string_view what);

/// JSON text of a value, for messages; made when it is formatted.
struct JsonText {
  const Json& value;
  std::string operator()() const;
};
inline Lazily<JsonText> printable_json(const Json& value) {
  return {{value}};
}

/// Field readers for objects from files: each throws kInvalidModel naming `what` and the key when
/// the value has another type or lies out of range. The optional forms give nullopt for a missing
/// key and for null.
std::optional<std::int64_t> find_integer(const Json& object, std::string_view key,
                                         std::string_view what, std::int64_t min, std::int64_t max);
std::optional<double> find_number(const Json& object, std::string_view key, std::string_view what);
std::optional<bool> find_bool(const Json& object, std::string_view key, std::string_view what);
std::optional<std::string> find_string(const Json& object, std::string_view key,
                                       std::string_view what);

/// As above, for keys that must be there.
std::int64_t get_integer(const Json& object, std::string_view key, std::string_view what,
                         std::int64_t min, std::int64_t max);
std::string get_string(const Json& object, std::string_view key, std::string_view what);

}  // namespace nibble::core
