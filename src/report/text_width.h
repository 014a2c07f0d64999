#pragma once

#include <cstddef>
#include <string_view>

namespace nibble::report {

/// Characters (code points) of a UTF-8 text.
std::size_t text_width(std::string_view text);

}  // namespace nibble::report
