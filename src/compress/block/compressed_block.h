#pragma once

#include <map>
#include <string>
#include <vector>

#include "compress/block/block_work.h"
#include "formats/packed_weight.h"
#include "models/network.h"

namespace nibble::compress {

/// What a recipe made of one block: all that differs from the original.
struct CompressedBlock {
  std::map<std::string, formats::PackedWeight> layers;  // by prefix; dense ones may be routers
  std::map<std::string, std::vector<float>>
      vectors;  // changed norms and biases, and the keys' centre, by tensor name, as stored
};

/// The weights of a norm as checkpoints hold them.
std::vector<float> stored_weight(const ops::Norm& norm);

/// Takes the packed layers out of `work`, which was made of `transformed` (the original itself, or
/// what a ModelTransform made of it), with the norms and biases that are not those of `original`
/// and the layers that no pass works on but the transformation changed (routers). Throws kUsage
/// when no pass has rounded a layer.
CompressedBlock take_compressed(BlockWork& work, const models::Block& transformed,
                                const models::Block& original);

/// `original` with the changes.
models::Block apply_compressed(const models::Block& original, const CompressedBlock& compressed);

}  // namespace nibble::compress
