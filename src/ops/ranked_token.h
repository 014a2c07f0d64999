#pragma once

#include <cstdint>

namespace nibble::ops {

/// A token among those with the largest logits.
struct RankedToken {
  std::int32_t id = 0;
  float logit = 0.0f;
  friend bool operator==(const RankedToken&, const RankedToken&) = default;
};

}  // namespace nibble::ops
