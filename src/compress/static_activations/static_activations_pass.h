#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "static-activations": the stored scale of a layer's inputs (Activation::stored_scale), so that
/// the largest magnitude of the calibration texts, times the option "clip" (1, in [0.1, 1]), is the
/// largest code. Layers that share an input get the same scale. Comes last.
extern const PassFactory kStaticActivationsPass;

}  // namespace nibble::compress
