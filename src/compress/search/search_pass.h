#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "search": scales and zeros that lose least on the calibration text (GroupSearch); the pass that
/// rounds uses them. Option steps (32): ranges tried for each group.
extern const PassFactory kSearchPass;

}  // namespace nibble::compress
