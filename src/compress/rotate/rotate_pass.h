#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// Turns the whole model by random Hadamard matrices before it is compressed (ModelRotation), so
/// that no channel carries outliers. Options: "seed" (default 0) of the random signs.
extern const PassFactory kRotatePass;

}  // namespace nibble::compress
