#pragma once

#include <memory>

#include "formats/format.h"

namespace nibble::formats {

/// Integers with real minima: w = scale * code + minimum. The range of a group is widened to
/// contain 0; minimum is its lower end, and scale its width / (2^b - 1), b being the bits of the
/// codes (fewer than are stored in GGUF's Q5_K). Without supers both are rounded to fp16, the
/// minimum first. Codes are chosen with the rounded numbers; ties go to even.
std::unique_ptr<const Format> make_minima_format(const Scheme& scheme);

}  // namespace nibble::formats
