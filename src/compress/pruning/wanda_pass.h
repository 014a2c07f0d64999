#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "wanda": prunes by |w| sqrt(E[x^2]) (wanda()). Options sparsity (0.5), pattern ("unstructured",
/// "2:4", "4:8"), after_rounding (false: prunes the weights before they are rounded; true: stands
/// behind the pass that rounds, and turns the codes of pruned weights into those of 0).
extern const PassFactory kWandaPass;

}  // namespace nibble::compress
