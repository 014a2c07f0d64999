#pragma once

#include <cstdint>
#include <vector>

#include "ops/layers.h"
#include "ops/ops.h"

namespace nibble::ops {

/// x[i] = exp(x[i] - max x) for n numbers; returns their sum.
using SoftmaxNumerators = float (*)(float* x, std::int64_t n);

/// That, plainly.
float softmax_numerators(float* x, std::int64_t n);

/// Router logits [m, spec.experts], rows `stride` apart, to the rows of each expert, in the order
/// of the batch. Of equal shares the lower expert goes first.
std::vector<ExpertRows> route(const float* logits, std::int64_t m, std::int64_t stride,
                              const RoutingSpec& spec, SoftmaxNumerators numerators);

}  // namespace nibble::ops
