#pragma once

#include <string>
#include <string_view>

namespace nibble::characters {

/// The case mappings of Python's str, from ICU's tables. All expect valid UTF-8.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

/// First letter in title case, the rest in lower case: Python's str.capitalize().
std::string to_capitalized(std::string_view text);

/// Every letter that follows no letter in title case, the others in lower case: str.title().
std::string to_title(std::string_view text);

}  // namespace nibble::characters
