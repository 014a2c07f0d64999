#pragma once

#include <memory>

#include "formats/format.h"

namespace nibble::formats {

/// MXFP4 (OCP Microscaling Formats v1.0): groups of 32 inputs, w = 2^e * E2M1(code), code = sign <<
/// 3 | magnitude, e stored as E8M0.
///
/// e = floor(log2(a)) - 2, a being max|w| rounded to one mantissa bit (from 1.75 * 2^x on it is
/// 2^(x+1)): the `even` rule of compressed-tensors, of smaller error than the rule that never
/// rounds the largest element down. Codes are rounded to nearest, ties to the even code; beyond 6
/// they saturate. A negative weight that rounds to zero keeps its sign (code 8).
std::unique_ptr<const Format> make_mx_format(const Scheme& scheme);

}  // namespace nibble::formats
