#pragma once

#include "formats/code_type.h"

namespace nibble::formats {

/// E2M1 numbers (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; OCP Microscaling Formats 1.0,
/// section 5.3.3) as codes of activations, in schemes with -afp4: x = s * code, s = clip * max|x| /
/// 6 of the inputs that share a scale; ties go to the even code, and 6 is the largest. Their
/// doubles are integers, so arithmetic sees integers of 5 bits with s / 2. Weights in E2M1 have a
/// code book (Book::kE2m1).
extern const CodeType kE2m1Numbers;

}  // namespace nibble::formats
