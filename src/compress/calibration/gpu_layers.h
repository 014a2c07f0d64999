#pragma once

#include <string>

#include "formats/scheme.h"

namespace nibble::compress::cuda {

/// Why calibration windows do not run through layers of the scheme on a GPU, as the end of a
/// message; empty: they do. They run through float weights whose inputs stay as they are (what
/// codes become then), and by the kernels of models (ops/cuda/linear) through integers and books
/// that meet rounded activations.
std::string gpu_calibration_problem(const formats::Scheme& scheme);

}  // namespace nibble::compress::cuda
