#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/input_target.h"
#include "ops/layer_kinds.h"

namespace nibble::ops::cuda {

/// Gate and up in bfloat16, [m, 2 columns], side by side: activation(gate) * up in float32, to
/// a target of values (has_values()). `gate_up` is 8-byte aligned, and columns are a multiple of 4.
void gated_bfloat16(const std::uint16_t* gate_up, MlpActivation activation,
                    const InputTarget& target, std::int64_t m, std::int64_t columns,
                    cudaStream_t stream);

/// The same as a matrix, y [m, columns].
void gated_bfloat16_matrix(const std::uint16_t* gate_up, MlpActivation activation, float* y,
                           std::int64_t m, std::int64_t columns, cudaStream_t stream);

}  // namespace nibble::ops::cuda
