#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nibble::formats {

/// A number in a word of a scheme, in the one form that to_string() writes: no sign, no leading
/// zero.
inline std::optional<std::int64_t> parse_number(std::string_view word) {
  if (word.empty() || word[0] < '1' || word[0] > '9') {
    return std::nullopt;
  }
  std::int64_t number = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return number;
}

}  // namespace nibble::formats
