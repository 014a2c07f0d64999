#pragma once

#include <cstdint>

#include "core/threads.h"
#include "ops/cpu/matrix.h"
#include "ops/layers.h"

namespace nibble::ops::cpu {

/// y = norm(x) of one row; y may be x.
void norm_row(const Norm& norm, const float* x, float* y);

/// y[i] = activation(x[i]); y may be x.
void activate(MlpActivation activation, const float* x, float* y, std::int64_t n);

/// y[i] = activation(gate[i]) * up[i].
void activate_gated(MlpActivation activation, const float* gate, const float* up, float* y,
                    std::int64_t n);

/// Adds the biases of all parts of the set to y [m, set.n()].
void add_bias(const LinearSet& set, Matrix& y, core::ThreadPool& pool);

}  // namespace nibble::ops::cpu
