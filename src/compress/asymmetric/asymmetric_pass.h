#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "asymmetric": turns each layer's target from W into the weights that give, for the inputs behind
/// the compressed layers before it, the outputs that W gives for the original inputs (asymmetric
/// calibration: GPTAQ, arXiv 2504.02692, section 3; here in closed form, before rounding).
/// Options: damp (0.01).
extern const PassFactory kAsymmetricPass;

}  // namespace nibble::compress
