#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "core/threads.h"
#include "formats/packed_weight.h"

namespace nibble::ops::cpu {

/// Rows of x up to which the weights are read as they are stored.
inline constexpr std::int64_t kFewDenseRows = 12;

/// y[m, n] = x[m, k] W^T in float32, for dense weights (F32, F16, BF16 [n, k]) and, decoded panel
/// by panel, for packed ones (the exact path with 16-bit activations).
///
/// Each y(i, j) is the dot product that VectorKernels::dot_f32 makes, for any m: a sequence gets
/// the same numbers whatever shares its batch. Row strides: ldx >= k, ldy >= n.
void dense_linear(const float* x, std::int64_t m, std::int64_t ldx,
                  const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                  core::ThreadPool& pool);

/// The same in double precision and plain loops.
void dense_linear_reference(const float* x, std::int64_t m, std::int64_t ldx,
                            const formats::PackedWeight& weight, double* y, std::int64_t ldy);

}  // namespace nibble::ops::cpu
