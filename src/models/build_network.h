#pragma once

#include "models/network.h"
#include "models/tensor_names.h"
#include "models/weight_source.h"

namespace nibble::models {

/// The network that `config` describes, of the tensors that `names` tells. Throws kInvalidModel for
/// a tensor that is missing, that has another shape or values that are not finite, and for one that
/// the family does not use.
Network build_network(const NetworkConfig& config, const TensorNames& names, WeightLoader& loader);

}  // namespace nibble::models
