#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/matrix_view.h"

namespace nibble::ops::cuda {

enum class TextPooling { kMean, kMax };

/// y[i] = mean or maximum of rows [begins[i], ends[i]) of x, at least one; x [rows, columns],
/// y [texts, columns] float32, all on the device. Means are of sums in float64, added in the order
/// of the rows, so that they are the bits of the host (engine/pooling.h). Nothing waits or
/// allocates.
void pool_texts(TextPooling pooling, const MatrixView& x, std::int64_t columns,
                const std::int32_t* begins, const std::int32_t* ends, float* y, std::int64_t texts,
                cudaStream_t stream);

}  // namespace nibble::ops::cuda
