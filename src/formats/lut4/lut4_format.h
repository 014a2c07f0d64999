#pragma once

#include <memory>
#include <span>

#include "formats/format.h"

namespace nibble::formats {

/// Code books of 16 values, or 8 or 4: w = scale * book[code]. fit() gives scale = max|w| /
/// max|book|, rounded to fp16 and positive; a negative scale mirrors the book. Where a fixed book
/// reaches further below 0 than above (IQ4), fit() mirrors it for a group whose largest weight is
/// positive. The code is that of the nearest entry; between two entries at equal distance the
/// smaller value wins (bitsandbytes: strictly above the midpoint goes up), among equal entries the
/// lowest code. `book` has book_size() finite values in any order and is copied.
std::unique_ptr<const Format> make_lut4_format(const Scheme& scheme, std::span<const float> book);

}  // namespace nibble::formats
