#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "rtn": round to nearest, with the parameters that a pass before has chosen or else the format's
/// own. Needs no calibration text itself.
extern const PassFactory kRtnPass;

}  // namespace nibble::compress
