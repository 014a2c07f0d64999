#pragma once

#include <cstdint>
#include <span>

#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/cpu/linear/linear_kernel.h"

/// Linear layers with E4M3 weights (formats/fp8/fp8_format.h), read as they are stored. Codes
/// become float32 by shifts (vector_kernels.h), which is exact, and products are added in float32.
namespace nibble::ops::cpu {

/// Tokens up to which weights become floats on their way from memory, once for each four of them.
inline constexpr std::int64_t kFewFp8Rows = 12;

/// Rounds rows of x [m, k] to E4M3, as values: out[i * k + j] is the E4M3 number nearest to
/// x(i, j) * (448 / max|x(i)|), and scales[i] = max|x(i)| / 448. A row of (nearly) zeros becomes
/// zeros with scale 0; one that is not finite gets zeros and a scale of NaN.
void round_to_e4m3(const float* x, std::int64_t m, std::int64_t k, float* out,
                   std::span<float> scales, core::ThreadPool& pool);

/// y(i, j) = (sum over k of x(i, k) * e4m3(j, k)) * scale(j) [* token_scales[i], where given]. The
/// sum is VectorKernels::score_f32's for any m: a sequence gets the same numbers whatever shares
/// its batch. Row strides: k, and ldy >= n.
void fp8_linear(const float* x, std::int64_t m, const formats::PackedWeight& weight,
                std::span<const float> token_scales, float* y, std::int64_t ldy,
                core::ThreadPool& pool);

/// The entry of the table of kernels.
LinearKernel fp8_kernel();

}  // namespace nibble::ops::cpu
