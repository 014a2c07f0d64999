#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "gptq": GPTQ with the parameters that a pass before has chosen, or else those of round to
/// nearest. Options damp (0.01), act_order (true: descending diagonal of the Hessian).
extern const PassFactory kGptqPass;

}  // namespace nibble::compress
