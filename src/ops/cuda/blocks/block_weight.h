#pragma once

#include <string_view>
#include <vector>

#include "core/float16.h"
#include "core/threads.h"
#include "formats/packed_weight.h"

/// Weights in the blocks of GGUF files (minima, scales that are multiples) on their way into the
/// units of a GPU.
namespace nibble::ops::cuda {

/// Whether a scheme has minima, or scales that are multiples of a shared float16.
bool is_block_scheme(const formats::Scheme& scheme);

/// A weight of such a scheme with a float16 scale for each group: a multiple times its float16,
/// rounded (at most 2^-11 of it). With minima it is for units alone (unit_format.h), where
///
///   w(n, k) = scale[n][k / group] * (code(n, k) - 2^(bits - 1)) + minima[n][k / group]
///
/// as kInt4WithShifts and kInt8WithShifts have it: its minima are shifts, minimum + scale * middle,
/// rounded to float16. The middle of b bits is 2^(b - 1); of codes of 8 bits below 32 (Q5_K, Q5_1)
/// it is 16, and they are moved by 112, since what inputs lose in rounding is multiplied by codes
/// less the middle. Throws kUsage, naming `name`, where a scale or a shift is beyond float16.
formats::PackedWeight block_weight(const formats::PackedWeight& weight, std::string_view name,
                                   core::ThreadPool& pool);

}  // namespace nibble::ops::cuda
