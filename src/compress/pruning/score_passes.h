#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// Prune the weights with the lowest scores (wanda()): "magnitude" by |w|, "wanda" by
/// |w| sqrt(E[x^2]). Options sparsity and pattern (read_sparsity()), after_rounding (false: prunes
/// the weights before they are rounded; true: stands behind the pass that rounds, and turns the
/// codes of pruned weights into those of 0).
extern const PassFactory kMagnitudePass;
extern const PassFactory kWandaPass;

}  // namespace nibble::compress
