#pragma once

#include "core/json_type.h"
#include "models/network.h"

namespace nibble::models {

/// Fills config.inverse_frequency and config.rope_factor from rope_theta with rope_scaling or
/// rope_parameters: default, linear (position interpolation, arXiv 2306.15595), llama3, yarn
/// (arXiv 2309.00071), longrope (arXiv 2402.13753). Needs head_dim and max_positions. Other kinds
/// are refused by name.
///
/// longrope has two sets of frequencies. The short ones stand in config.inverse_frequency, for
/// texts of up to the original number of positions, which becomes max_positions; the long ones in
/// config.long_rope.
void read_rope(const core::Json& json, NetworkConfig& config);

}  // namespace nibble::models
