#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/divided/join_columns.h"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 32;  // of a row and rank

__global__ void __launch_bounds__(kThreads)
    join_columns_kernel(const float* parts, std::int64_t stride, RankColumns columns, float* y) {
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t row = blockIdx.x;
  const unsigned rank = blockIdx.y;
  const std::int64_t width = columns.first[rank + 1] - columns.first[rank];
  const std::int64_t all = columns.first[columns.ranks];
  const float* const from = parts + rank * stride + row * width;
  float* const to = y + row * all + columns.first[rank];
  for (std::int64_t i = blockIdx.z * kThreads + threadIdx.x; i < width;
       i += static_cast<std::int64_t>(gridDim.z) * kThreads) {
    to[i] = from[i];
  }
}

}  // namespace

void join_columns(const float* parts, std::int64_t stride, const RankColumns& columns, float* y,
                  std::int64_t m, cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  const dim3 grid(static_cast<unsigned>(m), static_cast<unsigned>(columns.ranks),
                  m < 16 ? kMostBlocks : 4);
  launch_dependent(join_columns_kernel, grid, dim3(kThreads), 0, stream, parts, stride, columns, y);
}

}  // namespace nibble::ops::cuda
