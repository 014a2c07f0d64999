#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "compress/coding/cuda/coder.h"
#include "core/dtype.h"

/// Weights of a student. All pointers are of the device. Nothing waits or allocates.
namespace nibble::tune::cuda {

/// values [n, k] of F32 or BF16: the weights rounded to nearest in groups of `group` inputs of a
/// row, whose scales (and zeros) are chosen anew, as formats::round_to_nearest() does it; bit for
/// bit but for the last step from float32 to bfloat16.
void round_to_nearest(const compress::cuda::CoderView& coder, const float* weights, std::int64_t n,
                      std::int64_t k, std::int64_t group, void* values, core::DType type,
                      cudaStream_t stream);

/// `count` values of F32 or BF16: the weights as `stored` (F32, F16 or BF16) has them.
void round_floats(core::DType stored, const float* weights, std::int64_t count, void* values,
                  core::DType type, cudaStream_t stream);

}  // namespace nibble::tune::cuda
