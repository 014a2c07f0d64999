#pragma once

#include <memory>

#include "formats/format.h"

namespace nibble::formats {

/// Integers: w = scale * (code - zero), scale stored as fp16.
///
///   symmetric, 2 to 4 bits   scale = m / -2^(b-1), m the element of largest magnitude (the first
///   of
///                            equals): m itself becomes code 0, and no code is lost. The scale is
///                            negative when m is positive. zero = 2^(b-1).
///   symmetric, 8 bits        scale = max|w| / 127, zero = 128, codes 1 to 255, so that the
///   integers
///                            -127 to 127 of W8A8 products have no lone -128
///   asymmetric               [min, max] widened to contain 0; scale = (max - min) / (2^b - 1),
///                            zero = round(-min / scale)
///   symmetric, 5 and 6 bits  as with 2 to 4 bits, around the middle of the 8 bits that hold them
///
/// Scales are rounded to fp16 first, codes and zeros are chosen with the rounded scale. Ties go to
/// even.
std::unique_ptr<const Format> make_int_format(const Scheme& scheme);

}  // namespace nibble::formats
