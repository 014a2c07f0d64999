#pragma once

#include <vector>

#include "core/threads.h"
#include "formats/packed_weight.h"

namespace nibble::compress {

/// |W - W'|^2 / |W|^2 of a layer, W being `target` [n, k] and W' what `packed` decodes to; 0 when W
/// is.
double relative_error(const std::vector<float>& target, const formats::PackedWeight& packed,
                      core::ThreadPool& pool);

}  // namespace nibble::compress
