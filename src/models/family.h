#pragma once

#include <span>
#include <string_view>

#include "core/json.h"
#include "models/network.h"
#include "models/weight_source.h"

namespace nibble::models {

/// One model family: how its config.json reads, and which tensor is which layer. What the layers
/// compute is the same for all families (forward.h).
struct Family {
  std::string_view model_type;  // as in config.json
  NetworkConfig (*read_config)(const core::Json& json);
  Network (*build)(const NetworkConfig& config, WeightLoader& loader);
};

/// Every family of this build; the one registration place is all.cpp.
std::span<const Family> families();

/// Throws kInvalidModel naming the type and what is supported.
const Family& find_family(std::string_view model_type);

}  // namespace nibble::models
