#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "any4": learned code books (learn_books) for schemes lut4-row-* and lut4-matrix-*,
/// lut3-* and lut2-*; the pass that rounds uses them. Where weights are pruned one by one, each
/// book has a 0; groups of block-sparse rows that are pruned are not stored. Options weights
/// ("exact", "root"), rounds (3), steps (8).
extern const PassFactory kAny4Pass;

}  // namespace nibble::compress
