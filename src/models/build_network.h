#pragma once

#include "models/architecture.h"
#include "models/shard.h"
#include "models/tensor_names.h"
#include "models/weight_source.h"

namespace nibble::models {

/// The network that `architecture` describes, of the tensors that `names` tells, or what `shard`
/// has of it: its sizes (Network::config) are those of the whole. Throws kInvalidModel for a tensor
/// that is missing, that has another shape or values that are not finite, and for one that the
/// family does not use.
Network build_network(const Architecture& architecture, const TensorNames& names,
                      WeightLoader& loader, const Shard& shard = {});

}  // namespace nibble::models
