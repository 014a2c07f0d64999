#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/cpu/dense/float_digits.h"
#include "ops/cpu/dense/float_tiles.h"

namespace nibble::ops::cpu {

/// Whether tiled_linear() multiplies dense weights of a type: BF16 and F16.
bool has_float_tiles(core::DType type);

/// y[m, n] = x[m, k] W^T for dense weights of BF16 or F16 [n, k] in tile registers, within the
/// bound of float_tiles.h. Row strides: ldx >= k, ldy >= n.
///
/// It takes every number of tokens, so that a sequence gets the same numbers whatever shares its
/// batch. A number of y that is not finite is made again in float32 (dense_linear), so that
/// infinities, NaN, and numbers that leave the range of digits or sums give what they give there.
void tiled_linear(const FloatTiles& tiles, const float* x, std::int64_t m, std::int64_t ldx,
                  const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                  core::ThreadPool& pool);

/// The same of an activation whose digits were made for the weight's type by the same tiles, so
/// that several layers can share them.
void tiled_linear(const FloatTiles& tiles, const FloatDigits& x,
                  const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                  core::ThreadPool& pool);

}  // namespace nibble::ops::cpu
