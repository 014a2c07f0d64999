#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/matrix_view.h"

/// Operators on numbers without rows. All pointers are of the device; nothing waits or allocates.
namespace nibble::ops::cuda {

/// x *= factor.
void scale(const MutableMatrixView& x, float factor, std::int64_t count, cudaStream_t stream);

}  // namespace nibble::ops::cuda
