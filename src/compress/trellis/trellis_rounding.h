#pragma once

#include <cstdint>
#include <span>

#include "compress/gptq/cholesky.h"
#include "core/threads.h"
#include "formats/packed_weight.h"

namespace nibble::compress {

/// The ratio of a row's deviation to that of the values of codes with which normally distributed
/// weights have the smallest error, measured. A little less of the tails is used than the book has.
float trellis_spread(int bits);

/// A layer in trellis codes, with the error of each 16 inputs made up for by the inputs that come
/// later (the block form of LDLQ, QTIP, arXiv 2406.11235, section 3; GPTQ's updates for blocks).
/// `weights` [n, k] row-major; `factor` is inverse_factor() in the order of the inputs. Scales of
/// rows are those of their deviations first, and then those with which the codes have the smallest
/// error for `hessian` [k, k], the lower triangle of X^T X.
formats::PackedWeight round_to_trellis(std::span<const float> weights, std::int64_t n,
                                       std::int64_t k, const formats::Scheme& scheme,
                                       const InverseFactor& factor, std::span<const float> hessian,
                                       core::ThreadPool& pool);

}  // namespace nibble::compress
