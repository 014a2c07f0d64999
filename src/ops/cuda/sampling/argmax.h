#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace nibble::ops::cuda {

/// ids[i] = the column of the largest of row i, the lowest on ties; -1 where the row holds NaN.
/// logits [m, columns] float32, at most 2^31 - 1 columns.
void argmax(const float* logits, std::int64_t m, std::int64_t columns, std::int32_t* ids,
            cudaStream_t stream);

}  // namespace nibble::ops::cuda
