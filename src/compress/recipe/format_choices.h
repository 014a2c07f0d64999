#pragma once

#include <vector>

#include "formats/scheme.h"

namespace nibble::compress {

/// The schemes that layers of a recipe with this scheme can have instead when sizes are mixed: the
/// same family, symmetry, scales and activations with every number of bits that the family has, and
/// groups of 32, 64, 128 and what the scheme itself has, as far as there are such schemes. For
/// GGUF's blocks of 256 inputs: all of them. One alone where the family has one size (MXFP4, NVFP4,
/// dense).
std::vector<formats::Scheme> format_choices(const formats::Scheme& scheme);

}  // namespace nibble::compress
