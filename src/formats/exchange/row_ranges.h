#pragma once

#include <cstdint>

#include "core/threads.h"

namespace nibble::formats::exchange {

/// Calls body(first, last) for ranges that cover rows [0, rows) of `row_elements` numbers each, on
/// all cores where there is much to do. Rethrows the first exception. Throws kOutOfMemory when
/// threads cannot start.
void for_row_ranges(std::int64_t rows, std::int64_t row_elements,
                    core::FunctionRef<void(std::int64_t, std::int64_t)> body);

}  // namespace nibble::formats::exchange
