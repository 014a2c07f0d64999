#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "static-activations": the stored scale of a layer's inputs (Activation::stored_scale), so that
/// the largest magnitude of the calibration texts, or the one that "percentile" (100, in [50, 100])
/// of their inputs do not exceed, times "clip" (1, in [0.1, 1]), is the largest code. Layers that
/// share an input get the same scale. Comes last. A percentile of inputs that a pass before scales
/// needs "true_sequential", which measures them again.
extern const PassFactory kStaticActivationsPass;

}  // namespace nibble::compress
