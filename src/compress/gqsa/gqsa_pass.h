#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "gqsa": prunes whole groups of a scheme of block-sparse rows (int4-asym-g16-bsr, f16-g16-bsr) by
/// their saliency (group_saliency.h), and makes up for them as SparseGPT does, and then by
/// coordinate descent (kept_descent.h). Rows that keep the same groups are judged together. Options
/// sparsity (0.5: the share that goes), balance ("row": of each row, or tile; "matrix": of all
/// together), saliency ("gqsa", "obs"), damp (0.01 of the Hessian's mean diagonal).
extern const PassFactory kGqsaPass;

}  // namespace nibble::compress
