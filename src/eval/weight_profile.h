#pragma once

#include <cstdint>
#include <vector>

#include "eval/metrics/growing_histogram.h"
#include "formats/packed_weight.h"

namespace nibble::eval {

/// How often a code stands in a layer.
struct CodeUse {
  int code = 0;
  double value = 0;  // in units of the group's scale; the mean over its uses where zeros or learned
                     // books differ between groups or rows
  std::int64_t count = 0;
};

/// What the weights of a layer look like; where they have codes without those of groups that are
/// not stored.
struct WeightProfile {
  GrowingHistogram histogram;  // of the values; of value / scale of the group where there are codes
  std::vector<CodeUse> codes;  // every code in order, used or not; empty for dense weights
  double code_entropy = 0;     // bits: what a code tells, at most Scheme::bits
};

WeightProfile profile_weights(const formats::PackedWeight& weight);

}  // namespace nibble::eval
