#pragma once

#include <cstdint>

#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/cpu/linear/linear_kernel.h"
#include "ops/cpu/packed/quantized_input.h"
#include "ops/cpu/packed/variants.h"

/// Linear layers of trellis codes (formats/trellis/trellis_code.h), read as they are stored: the
/// runs of 16 rows are a tile of tile_layout.h, four lines each. Values have 8 bits, so sums over
/// groups are exact, and all instruction sets, threads and batches give the same bits:
///
///   y(t, r) = scale(r) * total,   total = fma(float(sum over k in g of v(r, k) * a(t, k)),
///                                             a_scale(t, g), total)   for g = 0, 1, 2, ...
namespace nibble::ops::cpu {

/// Tokens up to which lines go from the stream into products; for more of them two tiles at a time
/// become 8-bit codes, which the variant multiplies. Without AVX512-VBMI there is only that.
inline constexpr std::int64_t kFewTrellisTokens = 8;

/// How a layer wants its input.
InputNeeds trellis_needs(const formats::Scheme& scheme, std::int64_t k);

/// y[m, n], rows ldy apart, by `variant`. The input has the needs of the layer; they carry neither
/// zero points nor outliers.
void trellis_linear(const Variant& variant, const QuantizedInput& x,
                    const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                    core::ThreadPool& pool);

/// The entry of the table of kernels.
LinearKernel trellis_kernel();

}  // namespace nibble::ops::cpu
