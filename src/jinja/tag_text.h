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

/// Where the "%}" of a "{% word %}" at `tag` stands; npos when the tag is another one. `end_sign`
/// becomes the sign before it, one of `end_signs` or 0.
std::size_t find_end_of_tag(std::string_view text, std::size_t tag, std::string_view word,
                            std::string_view end_signs, char& end_sign);

}  // namespace nibble::jinja
