#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "refine": coordinate descent on the codes and scales that the pass before has rounded to
/// (refine()). Options sweeps (2), scales (true), damp (0.01 of the Hessian's mean diagonal).
extern const PassFactory kRefinePass;

}  // namespace nibble::compress
