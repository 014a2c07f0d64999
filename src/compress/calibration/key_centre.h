#pragma once

#include <span>
#include <vector>

#include "models/network.h"

namespace nibble::compress {

/// AttentionSpec::key_centre of a block: the mean key of a text whose tokens give the block's first
/// layers the mean input `mean_input` [hidden], averaged over the turns that RoPE gives it at
/// positions [0, min(max_positions, 4096)). Empty for models that normalise their keys (Qwen3),
/// whose mean does not follow from that of the inputs, and for those with soft-capped scores (Gemma
/// 2), which see what is taken from all of them.
std::vector<float> key_centre(const models::NetworkConfig& config, const models::Block& block,
                              std::span<const float> mean_input);

}  // namespace nibble::compress
