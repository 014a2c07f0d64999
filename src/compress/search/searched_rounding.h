#pragma once

#include <span>

#include "core/threads.h"
#include "formats/packed_weight.h"

namespace nibble::compress {

/// Round to nearest of a matrix w [n, k] with the scales (and zero points) that lose least, all
/// weights alike (GroupSearch): for integers with float16 scales that rows do not share, never more
/// than formats::round_to_nearest, and for the blocks of GGUF; others throw kUsage. Throws
/// kInvalidModel for weights that are not finite.
formats::PackedWeight search_to_nearest(std::span<const float> w, std::int64_t n, std::int64_t k,
                                        const formats::Scheme& scheme, core::ThreadPool& pool);

}  // namespace nibble::compress
