#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace nibble::ops::cuda {

/// Sums of each `group` (16 or 32) of `count` values, one behind another: what the minima of a
/// layer are multiplied with. `count` is a multiple of the group (formats/scheme.h: minima have no
/// other ones). In float32, pairwise.
void group_sums(const float* values, std::int64_t count, std::int64_t group, float* sums,
                cudaStream_t stream);

}  // namespace nibble::ops::cuda
