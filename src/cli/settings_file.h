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

/// Reads the keys of a TOML 1.0 document: strings, finite numbers, booleans, and arrays of these.
/// Throws kUsage, naming `file` and the line, for tables, dates and what is no TOML.
std::vector<Setting> parse_settings(std::string_view text, const std::string& file);

}  // namespace nibble::cli
