#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "atom-reorder" (Atom, arXiv 2310.19102, sections 4.1 and 4.3): puts the inputs of each set of
/// layers into ascending order of their sum of squares on the calibration text, so that the
/// outlying ones stand last, where the scheme's tail computes them in INT8.
///
/// Gives every layer of an integer scheme without a tail one that fits its width: `share` of the
/// inputs (1/32: 128 of 4096), rounded to a multiple of 16, at least 16 and at most `most` (128).
extern const PassFactory kAtomReorderPass;

}  // namespace nibble::compress
