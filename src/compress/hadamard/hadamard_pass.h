#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "hadamard": turns the weights (and the statistics of their inputs) by the Hadamard matrix that
/// the scheme's -h names, W <- W H, so that y = (x H) (W H)^T = x W^T: what stands out in a few
/// inputs is spread over all that a matrix mixes (QuaRot, arXiv 2404.00456, section 4).
extern const PassFactory kHadamardPass;

}  // namespace nibble::compress
