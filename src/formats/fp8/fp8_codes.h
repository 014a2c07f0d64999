#pragma once

#include "formats/code_type.h"

namespace nibble::formats {

/// E4M3 numbers as codes of weights, and of activations in schemes with -afp8: x = s * code, s =
/// max|x| / 448 of all inputs of a token. NaN is no code.
extern const CodeType kFp8Codes;

}  // namespace nibble::formats
