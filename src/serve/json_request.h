#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/json_text.h"

/// JSON that a client sent. Everything that is wrong is an ApiError of status 400 that names the
/// field; numbers are checked against their range before they go anywhere.
namespace nibble::serve {

inline constexpr int kMaxRequestDepth = 64;

/// An object (RFC 8259). Refuses bad syntax, invalid UTF-8 and lone surrogates, a byte order mark,
/// integers beyond 64 bits, a key that stands twice in one object, more than kMaxRequestDepth
/// levels, and documents that are no object.
OrderedJson parse_request(std::string_view body);

/// Reads the fields of an object. null is like a field that is missing, as in OpenAI's API.
class Fields {
 public:
  /// `path` stands before the names in errors: "stream_options." or nothing. The object must
  /// outlive this.
  explicit Fields(const OrderedJson& object, std::string path = "");

  const OrderedJson* find(const char* name) const;  // null where there is none
  std::optional<bool> boolean(const char* name) const;
  std::optional<std::int64_t> integer(const char* name, std::int64_t least,
                                      std::int64_t most) const;
  std::optional<double> number(const char* name, double least, double most) const;
  std::optional<std::string> string(const char* name) const;
  std::optional<Fields> object(const char* name) const;
  /// Integers, all in a range; at most `count`.
  std::optional<std::vector<std::int32_t>> integers(const char* name, std::int32_t least,
                                                    std::int32_t most, std::size_t count) const;

  std::string path(std::string_view name) const { return path_ + std::string(name); }
  const OrderedJson& json() const { return *object_; }

 private:
  const OrderedJson* object_;
  std::string path_;
};

/// "an array", "a string" ...
const char* type_name(const OrderedJson& json);

/// The integers of an array, all in a range; errors name `param`.
std::vector<std::int32_t> integers_of(const OrderedJson& json, const std::string& param,
                                      std::int32_t least, std::int32_t most, std::size_t count);

}  // namespace nibble::serve
