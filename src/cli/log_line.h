#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "serve/log.h"

namespace nibble::cli {

inline constexpr std::size_t kMaxLogBytes = 400;  // of a line, with its end

/// A record as one line with a line break at its end, of text or of JSON. Whatever stands in the
/// record, the line has at most kMaxLogBytes: longer values are cut.
std::string log_line(const serve::LogRecord& record, std::string_view time, bool json);

}  // namespace nibble::cli
