#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "jinja/runtime.h"

namespace nibble::jinja {

/// `format` filled in for a moment in UTC, with English names whatever the locale. Knows the
/// directives of Python's strftime for dates and times, and glibc's %-d (no padding); refuses
/// others.
std::string format_time(Runtime& runtime, std::string_view format, std::int64_t unix_seconds);

}  // namespace nibble::jinja
