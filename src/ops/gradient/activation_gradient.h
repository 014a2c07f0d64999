#pragma once

#include <cstdint>

#include "ops/layers.h"

namespace nibble::ops::gradient {

/// dx += activation'(x) dy, n values.
void add_activation_gradient(MlpActivation activation, const float* x, const float* dy, float* dx,
                             std::int64_t n);

/// y = activation(gate) up: dgate += activation'(gate) up dy, dup += activation(gate) dy.
void add_gated_gradient(MlpActivation activation, const float* gate, const float* up,
                        const float* dy, float* dgate, float* dup, std::int64_t n);

}  // namespace nibble::ops::gradient
