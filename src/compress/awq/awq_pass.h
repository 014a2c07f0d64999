#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// AWQ (arXiv 2306.00978): scales channels up that carry much of the activations, so that they are
/// rounded more finely, then clips the range of each group. Scales are folded into the layer before
/// (norm, value or up projection). Options: "scale" (default true), "clip" (default true).
extern const PassFactory kAwqPass;

}  // namespace nibble::compress
