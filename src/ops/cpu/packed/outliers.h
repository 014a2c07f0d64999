#pragma once

#include <cstdint>

#include "ops/cpu/packed/quantized_input.h"
#include "ops/cpu/packed/tile_layout.h"

namespace nibble::ops::cpu {

/// The part of LLM.int8() that is not in 8 bits (arXiv 2208.07339, equation 8): y += the outliers
/// of each token times the weights' columns, for the rows of tiles [begin, end). y points at column
/// 0 of this matrix.
void add_outliers(const TiledWeight& weight, const QuantizedInput& input, std::int64_t begin,
                  std::int64_t end, float* y, std::int64_t ldy);

}  // namespace nibble::ops::cpu
