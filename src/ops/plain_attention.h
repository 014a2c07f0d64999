#pragma once

#include <string_view>

#include "ops/layers.h"

namespace nibble::ops {

/// What attention of this kind computes that the kernels of GPUs do not have: "attention
/// soft-capping", ...; empty where they have all of it.
std::string_view beyond_plain(const AttentionSpec& spec);

/// Throws kUsage where there is such a thing.
void require_plain(const AttentionSpec& spec);

}  // namespace nibble::ops
