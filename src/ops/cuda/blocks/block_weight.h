#pragma once

#include <string_view>
#include <vector>

#include "core/float16.h"
#include "core/threads.h"
#include "formats/packed_weight.h"

/// Weights in the blocks of GGUF files (minima, scales that are multiples) as a GPU holds them: in
/// units, with what the minima add beside them.
namespace nibble::ops::cuda {

/// Whether a scheme has minima, or scales that are multiples of a shared float16.
bool is_block_scheme(const formats::Scheme& scheme);

/// w(n, k) = weight(n, k) + shifts[n][k / group].
struct BlockWeight {
  /// Codes around a middle, with a float16 scale for each group: a multiple times its float16,
  /// rounded (at most 2^-11 of it).
  formats::PackedWeight weight;
  /// Float16 [n, groups]: minimum + scale * middle. Empty without minima.
  core::Tensor shifts;
};

/// Splits a weight of such a scheme. The middle of b bits is 2^(b - 1); of codes of 8 bits below 32
/// (Q5_K, Q5_1) it is 16, since what inputs lose in rounding is multiplied by codes less the
/// middle. Throws kUsage, naming `name`, where a scale or a shift is beyond float16.
BlockWeight block_weight(const formats::PackedWeight& weight, std::string_view name,
                         core::ThreadPool& pool);

}  // namespace nibble::ops::cuda
