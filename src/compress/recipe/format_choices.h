#pragma once

#include <vector>

#include "formats/scheme.h"

namespace nibble::compress {

/// The schemes that layers of a recipe with this scheme can have instead when sizes are mixed: the
/// same family, symmetry, scales and activations with every number of bits that the family has, and
/// groups of 32, 64, 128 and what the scheme itself has, as far as there are such schemes. For
/// schemes of GGUF alone: gguf_choices(). One alone where the family has one size (MXFP4, NVFP4,
/// dense).
std::vector<formats::Scheme> format_choices(const formats::Scheme& scheme);

/// The schemes of all block types of GGUF that something is rounded to, in the order of their bits
/// in a file.
std::vector<formats::Scheme> gguf_choices();

}  // namespace nibble::compress
