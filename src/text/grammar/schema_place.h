#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json_fwd.hpp>

namespace nibble::text {

/// A place in a JSON schema: a step below another one, which must outlive it. Spelled out only
/// where a message names it, since places are many and can be long.
struct SchemaPlace {
  const SchemaPlace* above = nullptr;
  std::string_view name;                  // of a member, or
  std::optional<std::size_t> index = {};  // of an element

  SchemaPlace operator/(std::string_view member) const { return {this, member}; }
  SchemaPlace operator/(std::size_t element) const { return {this, {}, element}; }

  /// "#/properties/a/anyOf/0"
  std::string to_string() const;
};

/// Finds what JSON pointers (RFC 6901) name in a document. The members of an object on the way are
/// put in order once, so that many pointers into a large one are cheap.
class SchemaPointers {
 public:
  explicit SchemaPointers(const nlohmann::ordered_json& document) : document_(document) {}

  /// nullptr when there is no such place, or the pointer is malformed.
  const nlohmann::ordered_json* find(std::string_view pointer);

 private:
  using Members = std::map<std::string_view, const nlohmann::ordered_json*>;
  const nlohmann::ordered_json* step(const nlohmann::ordered_json& from, const std::string& name);

  const nlohmann::ordered_json& document_;
  std::unordered_map<const nlohmann::ordered_json*, Members> members_;
};

}  // namespace nibble::text
