#pragma once

#include <vector>

#include "core/threads.h"
#include "formats/packed_weight.h"

namespace nibble::models {

/// The weights [n, k] of a layer as a plain linear layer would have them: decoded, in the order of
/// its inputs, and turned back where a Hadamard turned them (by arithmetic in float32).
std::vector<float> plain_weights(const formats::PackedWeight& weight, core::ThreadPool& pool);

}  // namespace nibble::models
