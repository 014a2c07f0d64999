#pragma once

#include "formats/scheme.h"

namespace nibble::compress {

/// Whether kernels code weights by the scheme (coding/cuda/coder.h): integers and books whose
/// scales are fp16, without minima and without a tail.
bool has_gpu_coder(const formats::Scheme& scheme);

/// The same of the inputs before a tail, whatever the tail is: kernels code that as INT8.
bool has_gpu_coder_of_head(const formats::Scheme& scheme);

}  // namespace nibble::compress
