#pragma once

#include "models/family.h"
#include "models/model.h"
#include "models/shard.h"

namespace nibble::models {

/// Makes the network, and what is known of its compression, of config_json and the tensors of
/// `source`. Throws as build_network().
void build(Model& model, const Family& family, const Shard& shard);

}  // namespace nibble::models
