#pragma once

#include "models/family.h"

/// OPT (arXiv 2205.01068): pre-norm, learned positions with an offset of two, ReLU.
namespace nibble::models::opt {

Family opt();

}  // namespace nibble::models::opt
