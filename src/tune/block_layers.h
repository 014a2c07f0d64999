#pragma once

#include <vector>

#include "compress/block/compressed_block.h"
#include "formats/packed_weight.h"
#include "models/network.h"

namespace nibble::tune {

/// The layers of a block that are compressed, as they are.
compress::CompressedBlock packed_layers(const models::Block& block);

/// All norms of a block.
std::vector<ops::Norm*> norms_of(models::Block& block);

/// All weights [n, k] of a layer.
std::vector<float> decoded(const formats::PackedWeight& weight);

}  // namespace nibble::tune
