#pragma once

#include <cstdint>
#include <vector>

#include "compress/gptq/cholesky.h"
#include "core/threads.h"
#include "formats/format.h"

namespace nibble::compress {

/// GPTQ (arXiv 2210.17323, Algorithm 1): inputs are rounded one after another, and the error of
/// each is made up for by the ones not yet rounded. Group parameters are those of the original
/// weights
/// ("static groups"), so the stored layout is that of round to nearest.
/// `weights` [n, k] row-major; on return they hold the rounded values.
formats::PackedWeight gptq(std::vector<float>& weights, std::int64_t n, std::int64_t k,
                           const formats::Scheme& scheme, const InverseFactor& factor,
                           core::ThreadPool& pool);

}  // namespace nibble::compress
