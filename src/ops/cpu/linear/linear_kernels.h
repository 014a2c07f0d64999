#pragma once

#include <span>

#include "ops/cpu/dense/float_tiles.h"
#include "ops/cpu/linear/linear_kernel.h"

namespace nibble::ops::cpu {

/// Raised with every change of the kernels after which their times must be measured again.
inline constexpr int kKernelsVersion = 3;

LinearKernel packed_kernel(const Variant& variant);  // packed/, "packed-avx2"
LinearKernel dense_kernel();                         // dense/, of weights that are floats
LinearKernel whole_kernel();                         // dense/, of two of four floats, made whole
LinearKernel dense_kernel(const FloatTiles& tiles);  // dense/, of BF16 and F16 in tile registers
LinearKernel whole_kernel(const FloatTiles& tiles);  // dense/, of those made whole
LinearKernel decoded_kernel();                       // dense/, of compressed weights, for float

/// All kernels of linear layers of this build. The first that does not refuse computes a layer.
std::span<const LinearKernel> linear_kernels();

/// Why a kernel takes no epilogue. Bias aside, none does.
Refusal epilogue_refusal(const Epilogue& epilogue);

}  // namespace nibble::ops::cpu
