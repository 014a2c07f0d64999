#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "core/dtype.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/layer_kinds.h"

/// Gradients of the operators on rows. All pointers are of the device; matrices are float32,
/// row-major. Nothing waits or allocates, and sums have a fixed order.
namespace nibble::ops::gradient::cuda {

/// y += factor x.
void add_scaled(float* y, float factor, const float* x, std::int64_t count, cudaStream_t stream);

/// `count` numbers of one type become those of another: F32, F16 or BF16 to F32 or BF16.
void convert(const void* source, core::DType from, std::int64_t count, void* target, core::DType to,
             cudaStream_t stream);

/// dx += the gradient at x [m, columns] from that of norm(x).
void add_norm_gradient(const ops::cuda::NormWeights& norm, const float* x, const float* dy,
                       float* dx, std::int64_t m, std::int64_t columns, cudaStream_t stream);

/// dx += activation'(x) dy.
void add_activation_gradient(MlpActivation activation, const float* x, const float* dy, float* dx,
                             std::int64_t count, cudaStream_t stream);

/// y = activation(gate) up, with gate and up side by side [m, 2 columns]: the same of both.
void add_gated_gradient(MlpActivation activation, const float* gate_up, const float* dy,
                        float* dgate_up, std::int64_t m, std::int64_t columns, cudaStream_t stream);

/// y[i] += weights[i] x[rows[i]], y [m, columns].
void add_gathered(const float* x, const std::int32_t* rows, const float* weights, float* y,
                  std::int64_t m, std::int64_t columns, cudaStream_t stream);

}  // namespace nibble::ops::gradient::cuda
