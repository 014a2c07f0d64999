#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/input_target.h"

namespace nibble::ops::cuda {

/// Tokens [first, first + m) of INT8 codes in lane order, times their scales, as float16 in natural
/// order: values [m][padded_columns(k)], each rounded once and saturated to +-65504. Many tokens of
/// block-sparse rows are multiplied so.
void widen_codes(const InputTarget& x, std::int64_t first, std::int64_t m, std::int64_t k,
                 core::Fp16* values, cudaStream_t stream);

}  // namespace nibble::ops::cuda
