#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nibble::jinja {

/// Every line end as \n, and without the last one, which Jinja drops.
std::string normalize_newlines(std::string_view source);

/// What stays of the text before a tag, whose brackets are followed by `sign`. Blanks before a
/// block tag or a comment go when it is the first thing on its line (lstrip_blocks).
std::string_view text_before_tag(std::string_view text, char sign, bool is_output,
                                 bool at_line_start);

}  // namespace nibble::jinja
