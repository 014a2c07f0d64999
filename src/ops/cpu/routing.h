#pragma once

#include <cstdint>
#include <vector>

#include "ops/layers.h"
#include "ops/ops.h"

namespace nibble::ops::cpu {

/// Router logits [m, spec.experts], rows `stride` apart, to the rows of each expert, in the order
/// of the batch. Of equal shares the lower expert goes first.
std::vector<ExpertRows> route(const float* logits, std::int64_t m, std::int64_t stride,
                              const RoutingSpec& spec);

}  // namespace nibble::ops::cpu
