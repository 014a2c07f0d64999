#pragma once

#include <span>
#include <vector>

#include "core/float16.h"
#include "formats/format.h"
#include "formats/scheme.h"

namespace nibble::formats {

/// The two numbers of a block of kSuperGroup inputs whose multiples its groups have as scales and
/// minima. A file holds the multiples in few bits (BlockForm::least_multiple).
struct Super {
  core::Fp16 scale;
  core::Fp16 minimum;  // 0 where the scheme has no minima

  friend bool operator==(const Super& a, const Super& b) {
    return a.scale.bits == b.scale.bits && a.minimum.bits == b.minimum.bits;
  }
};

/// Rounds the scales and minima of the groups of one row to what blocks can hold, and says the
/// blocks' numbers: the largest scale (and the lowest minimum) of a block becomes the last
/// multiple. A scale never becomes 0. `scheme` must have supers and a type; minima are at most 0.
std::vector<Super> round_to_supers(const Scheme& scheme, std::span<GroupParameters> groups);

}  // namespace nibble::formats
