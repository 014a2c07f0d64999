#pragma once

#include "models/family.h"

/// OPT (arXiv 2205.01068): learned positions with an offset of two, ReLU. Pre-norm with a final
/// norm, or post-norm without one.
namespace nibble::models::opt {

Family opt();

}  // namespace nibble::models::opt
