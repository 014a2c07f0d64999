#include "device/cuda/blocks.h"
#include "device/cuda/check.h"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/gradient/cuda/parameter_kernels.h"

namespace nibble::ops::gradient::cuda {
namespace {

using device::cuda::blocks_for;
using ops::cuda::kWarp;
using ops::cuda::warp_sum;

constexpr int kRowsAtATime = 8;
constexpr int kWarps = 8;

// One block for 32 columns: warp w adds the rows w, w + 8, ...; then the warps' sums are added in
// their order.
template <typename Value>
__device__ void add_columns(std::int64_t m, std::int64_t columns, float* to, const Value& value) {
  __shared__ float sums[kRowsAtATime][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  float sum = 0;
  for (std::int64_t row = threadIdx.y; column < columns && row < m; row += kRowsAtATime) {
    sum += value(row, column);
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
    float all = 0;
#pragma unroll
    for (int i = 0; i < kRowsAtATime; ++i) {
      all += sums[i][threadIdx.x];
    }
    to[column] += all;
  }
}

__global__ void column_sums_kernel(const float* x, std::int64_t m, std::int64_t columns,
                                   std::int64_t ldx, float* to) {
  add_columns(m, columns, to,
              [&](std::int64_t row, std::int64_t column) { return x[row * ldx + column]; });
}

__global__ void norm_weight_kernel(const float* x, const RowMoments* moments, const float* dy,
                                   std::int64_t m, std::int64_t columns, float* to) {
  add_columns(m, columns, to, [&](std::int64_t row, std::int64_t column) {
    const std::int64_t at = row * columns + column;
    return dy[at] * (x[at] - moments[row].mean) * moments[row].inverse;
  });
}

// A warp for each row.
__global__ void __launch_bounds__(kWarps* kWarp)
    row_moments_kernel(ops::cuda::NormWeights norm, const float* x, std::int64_t m,
                       std::int64_t columns, RowMoments* moments) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (row >= m) {
    return;
  }
  x += row * columns;
  const auto count = static_cast<float>(columns);
  RowMoments own;
  if (norm.kind == NormKind::kLayer) {
    float sum = 0;
    for (std::int64_t i = lane; i < columns; i += kWarp) {
      sum += x[i];
    }
    own.mean = warp_sum(sum) / count;
  }
  float squares = 0;
  for (std::int64_t i = lane; i < columns; i += kWarp) {
    squares += (x[i] - own.mean) * (x[i] - own.mean);
  }
  own.inverse = 1.0f / sqrtf(warp_sum(squares) / count + norm.eps);
  if (lane == 0) {
    moments[row] = own;
  }
}

}  // namespace

void add_column_sums(const float* x, std::int64_t m, std::int64_t columns, std::int64_t ldx,
                     float* to, cudaStream_t stream) {
  column_sums_kernel<<<blocks_for(columns, kWarp), dim3(kWarp, kRowsAtATime), 0, stream>>>(
      x, m, columns, ldx, to);
  device::cuda::check_launch("column_sums_kernel");
}

void row_moments(const ops::cuda::NormWeights& norm, const float* x, std::int64_t m,
                 std::int64_t columns, RowMoments* moments, cudaStream_t stream) {
  row_moments_kernel<<<blocks_for(m, kWarps), kWarps * kWarp, 0, stream>>>(norm, x, m, columns,
                                                                           moments);
  device::cuda::check_launch("row_moments_kernel");
}

void add_norm_weight_gradient(const float* x, const RowMoments* moments, const float* dy,
                              std::int64_t m, std::int64_t columns, float* to,
                              cudaStream_t stream) {
  norm_weight_kernel<<<blocks_for(columns, kWarp), dim3(kWarp, kRowsAtATime), 0, stream>>>(
      x, moments, dy, m, columns, to);
  device::cuda::check_launch("norm_weight_kernel");
}

}  // namespace nibble::ops::gradient::cuda
