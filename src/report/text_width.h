#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nibble::report {

/// Columns that a UTF-8 text takes in a terminal, by Unicode's East Asian Width (UAX #11): two for
/// wide characters and emoji, none for combining marks and format characters. Bytes that are no
/// UTF-8 take one.
std::size_t text_width(std::string_view text);

/// The text, or where it is wider than `columns`, as much of its front as fits before an ellipsis.
std::string cut_to_width(std::string_view text, std::size_t columns);

}  // namespace nibble::report
