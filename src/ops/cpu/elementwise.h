#pragma once

#include <cstdint>
#include <span>

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

/// Adds the biases of parts that stand side by side to y, from `column` on.
void add_bias(std::span<const Linear> parts, std::int64_t column, Matrix& y,
              core::ThreadPool& pool);

}  // namespace nibble::ops::cpu
