#pragma once

#include <cstdint>
#include <span>

#include "compress/coding/coded_weight.h"
#include "core/threads.h"

namespace nibble::compress {

/// The scales (and zeros, minima) of all groups of a layer that lose least when its weights [n, k]
/// are rounded to nearest (GroupSearch, `steps` of it), in their stored types. `importance` [k].
Parameters search_parameters(std::span<const float> weights, std::int64_t n, std::int64_t k,
                             const formats::Scheme& scheme, std::span<const float> importance,
                             int steps, core::ThreadPool& pool);

}  // namespace nibble::compress
