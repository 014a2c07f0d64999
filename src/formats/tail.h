#pragma once

#include "formats/scheme.h"

namespace nibble::formats {

/// Whether a tail in INT8 (Inputs::tail) may stand behind such weights: integers of fewer than 8
/// bits, and values of a fixed book with float16 scales.
bool takes_tail(const Scheme& scheme);

}  // namespace nibble::formats
