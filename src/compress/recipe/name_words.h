#pragma once

#include <optional>
#include <string_view>

namespace nibble::compress {

/// Takes `prefix` off the front of `text`.
bool take(std::string_view& text, std::string_view prefix);

/// Takes `suffix` off the end of `text`.
bool take_suffix(std::string_view& text, std::string_view suffix);

/// Takes the digits at the front of `text`; nullopt where there are none.
std::optional<int> take_number(std::string_view& text);

}  // namespace nibble::compress
