#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace nibble::ops::cuda {

/// GPUs that share a matrix.
inline constexpr int kMostJoined = 256;

/// Where the columns of each rank begin in a row that has those of all, and behind the last.
struct RankColumns {
  std::int32_t ranks = 0;
  std::int32_t first[kMostJoined + 1] = {};
};

/// y [m, columns] of what ranks computed of it: the part of rank r, [m, its columns], begins at
/// parts + r * stride.
void join_columns(const float* parts, std::int64_t stride, const RankColumns& columns, float* y,
                  std::int64_t m, cudaStream_t stream);

}  // namespace nibble::ops::cuda
