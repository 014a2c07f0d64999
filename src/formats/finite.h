#pragma once

#include <cmath>
#include <span>

#include "core/error.h"

namespace nibble::formats {

/// Throws kInvalidModel naming the first weight of the group that is NaN or infinite.
inline void require_finite(std::span<const float> group) {
  for (std::size_t i = 0; i < group.size(); ++i) {
    core::require(std::isfinite(group[i]), core::ErrorKind::kInvalidModel,
                  "weight {} of a group is {}; quantization needs finite weights", i, group[i]);
  }
}

}  // namespace nibble::formats
