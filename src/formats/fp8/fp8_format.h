#pragma once

#include <memory>

#include "formats/format.h"
#include "formats/fp8/fp8_codes.h"

namespace nibble::formats {

/// FP8 weights, fp8-row and fp8-tensor: w = scale * E4M3(code), scale stored as fp16 for a row or
/// for the whole matrix. E4M3 is core/float8.h's (OCP 8-bit floating point specification, OFP8,
/// revision 1.0; Micikevicius et al., arXiv 2209.05433): magnitudes from 2^-9 to 448, no infinity.
///
/// fit() takes max|w| / 448, rounded to fp16; the next larger fp16 where max|w| would still lie
/// beyond 464, half a step above the largest code. (Scales below 2^-18 or so are coarse in fp16. A
/// larger one costs nothing: codes are floating-point numbers.)
///
/// Codes are rounded to nearest, ties to even; subnormals are kept, and what is too large becomes
/// +-448. NaN is never a code.
std::unique_ptr<const Format> make_fp8_format(const Scheme& scheme);

/// Whether codes are E4M3 numbers.
inline bool has_float_codes(const Scheme& scheme) {
  return scheme.code.type == &kFp8Codes;
}

}  // namespace nibble::formats
