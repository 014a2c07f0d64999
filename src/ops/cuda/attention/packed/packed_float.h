#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/attention/packed/packed_attention.h"

namespace nibble::ops::cuda {

/// packed_attention() of float32, in which nothing is rounded to fewer bits, for heads of all sizes
/// up to kMaxHeadDim: qkv [m, stride] and y [m, heads head_dim] are float32. For models that are
/// computed in float32; it has no tensor cores. Nothing of PackedAttention::saturated. Throws
/// kUsage for shapes that packed_attention() refuses.
void packed_attention_float(const PackedAttention& shape, const float* qkv, std::int64_t stride,
                            const PackedTile* tiles, std::int64_t count, float* y,
                            cudaStream_t stream);

}  // namespace nibble::ops::cuda
