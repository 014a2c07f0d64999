#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "sparsegpt": prunes one input after another and makes up for it (sparsegpt()). Options sparsity
/// (0.5) and pattern (read_sparsity()), damp (0.01 of the Hessian's mean diagonal).
extern const PassFactory kSparseGptPass;

}  // namespace nibble::compress
