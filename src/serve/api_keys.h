#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_message.h"

namespace nibble::serve {

/// Who may use the server: whoever sends "Authorization: Bearer KEY" with one of the keys.
class ApiKeys {
 public:
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  bool empty() const { return keys_.empty(); }
  /// The number of the key that was sent, from 1; nothing for a wrong one. 0 for everybody when
  /// there is no key. Its time depends on the length of what was sent, not on how much of it is
  /// right.
  std::optional<std::size_t> find(const HttpRequest& request) const;
  bool allow(const HttpRequest& request) const { return find(request).has_value(); }

 private:
  std::vector<std::string> keys_;
};

/// The keys of a file, one a line; empty lines and those that begin with # are none. Throws kUsage
/// for a file without keys.
std::vector<std::string> parse_keys(std::string_view text, const std::string& file);

/// Whether two texts are the same, in a time that depends on the length of `given` only. `key` is
/// not empty.
bool same_secret(std::string_view given, std::string_view key);

}  // namespace nibble::serve
