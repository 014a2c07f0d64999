#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"

namespace nibble::core {

/// `count` numbers of a normal distribution, the same for the same seed.
inline std::vector<float> normal_values(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = random.normal();
  }
  return values;
}

}  // namespace nibble::core
