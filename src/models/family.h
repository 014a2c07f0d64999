#pragma once

#include <span>
#include <string_view>

#include "core/json_type.h"
#include "models/architecture.h"
#include "models/tensor_names.h"

namespace nibble::models {

/// One model family: how its config.json reads, and what its tensors are called. How they become a
/// network (build_network.h) and what that computes (forward.h) is the same for all families.
struct Family {
  std::string_view model_type;  // as in config.json
  Architecture (*read_config)(const core::Json& json);
  TensorNames names;
};

/// Every family of this build; the one registration place is all.cpp.
std::span<const Family> families();

/// Throws kInvalidModel naming the type and what is supported.
const Family& find_family(std::string_view model_type);

}  // namespace nibble::models
