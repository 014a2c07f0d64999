#pragma once

#include <vector>

#include "formats/exchange/compressed_tensors/layer_config.h"
#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// One function for each way in which compressed-tensors stores a layer (compressed_tensors.h).
/// Scales of inputs are added by the caller. They throw kInvalidModel naming the layer.
ReadLayer read_packed_integers(const StoredLayer& layer, const LayerConfig& config);
ReadLayer read_integers(const StoredLayer& layer, const LayerConfig& config);
ReadLayer read_fp8(const StoredLayer& layer, const LayerConfig& config);
ReadLayer read_fp4(const StoredLayer& layer, const LayerConfig& config);

/// weight_scale as [n, groups] (one of a matrix is repeated for each row).
std::vector<float> scales_of(const StoredLayer& layer, const LayerConfig& config);

}  // namespace nibble::formats::exchange
