#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/cpu/packed/quantized_input.h"
#include "ops/cpu/packed/tile_layout.h"

namespace nibble::ops::cpu {

/// Sum of the weights' integers (code - zero, or table entries) over each group: [tile_count,
/// groups, 16]. `group`, `k`: inputs of a group and of a row; padding does not count.
std::vector<std::int32_t> weight_sums(const TiledWeight& weight, std::int64_t group,
                                      std::int64_t k);

/// What asymmetric activations of 8 bits owe to their zeros: y(t, r) -= unit(r) * sum over g of
/// scale(r, g) * a_scale(t, g) * (zero(t, g) * weight_sum(r, g)), for the rows of tiles [begin,
/// end). The bracket is an exact integer below 2^24. y points at column 0 of this matrix.
void subtract_zero_points(const TiledWeight& weight, std::span<const std::int32_t> sums,
                          const QuantizedInput& input, std::int64_t begin, std::int64_t end,
                          float* y, std::int64_t ldy);

}  // namespace nibble::ops::cpu
