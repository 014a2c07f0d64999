#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// SmoothQuant (arXiv 2211.10438): moves part of the activations' range into the weights, so that
/// both fit 8 bits. Options: "alpha" (0 to 1, default 0.5), the part that moves.
extern const PassFactory kSmoothQuantPass;

}  // namespace nibble::compress
