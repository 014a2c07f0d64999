#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "core/float16.h"

/// Operators on numbers without rows. All pointers are of the device; nothing waits or allocates.
namespace nibble::ops::cuda {

/// x *= factor.
void scale(float* x, float factor, std::int64_t count, cudaStream_t stream);
/// y = x.
void widen(const core::Fp16* x, float* y, std::int64_t count, cudaStream_t stream);

}  // namespace nibble::ops::cuda
