#pragma once

#include <memory>

#include "formats/format.h"

namespace nibble::formats {

/// `format` for a row whose scales are multiples of a unit (row_unit.h): fit() and stored_scale()
/// round to them.
std::unique_ptr<const Format> make_row_unit_format(std::unique_ptr<const Format> format,
                                                   std::uint8_t unit);

}  // namespace nibble::formats
