#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

/// A key of a file with its value, or with those of an array, as the words of a call would say
/// them.
struct Setting {
  std::string key;
  std::vector<std::string> values;
  int line = 0;  // from 1
};

/// Reads lines `key = value` of TOML 1.0: strings in one line (escapes but \u and \U), decimal
/// numbers, booleans, arrays of these, and comments. Throws kUsage, naming `file` and the line, for
/// tables, for all else that TOML knows, and for what is no TOML.
std::vector<Setting> parse_settings(std::string_view text, const std::string& file);

}  // namespace nibble::cli
