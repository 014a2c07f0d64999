#include "compress/calibration/cuda/statistics_kernels.h"
#include "device/cuda/blocks.h"
#include "device/cuda/check.h"

namespace nibble::compress::cuda {
namespace {

using device::cuda::blocks_for;

constexpr int kColumns = 32;  // of a block
constexpr int kLanes = 16;    // threads that share a column
constexpr int kThreads = 256;

__global__ void __launch_bounds__(kColumns* kLanes)
    add_columns_kernel(const float* x, std::int64_t m, std::int64_t k, ColumnSums sums,
                       int* not_finite) {
  __shared__ float largest_of[kLanes][kColumns];
  __shared__ double magnitude_of[kLanes][kColumns];
  __shared__ double squares_of[kLanes][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int lane = static_cast<int>(threadIdx.x) / kColumns;
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kColumns + column;
  float largest = 0;
  double magnitude = 0;
  double squares = 0;
  bool finite = true;
  if (j < k) {
    for (std::int64_t row = lane; row < m; row += kLanes) {
      const float value = fabsf(x[row * k + j]);
      finite = finite && isfinite(value);
      largest = fmaxf(largest, value);
      magnitude += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  if (!finite) {
    *not_finite = 1;
  }
  largest_of[lane][column] = largest;
  magnitude_of[lane][column] = magnitude;
  squares_of[lane][column] = squares;
  __syncthreads();
  if (lane == 0 && j < k) {
    for (int other = 1; other < kLanes; ++other) {
      largest = fmaxf(largest, largest_of[other][column]);
      magnitude += magnitude_of[other][column];
      squares += squares_of[other][column];
    }
    sums.largest[j] = fmaxf(sums.largest[j], largest);
    sums.magnitude[j] += magnitude;
    sums.squares[j] += squares;
  }
}

__global__ void weigh_rows_kernel(const float* x, const float* weights, std::int64_t count,
                                  std::int64_t k, float* y) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) {
    y[i] = x[i] * weights[i / k];
  }
}

}  // namespace

void add_columns(const float* x, std::int64_t m, std::int64_t k, const ColumnSums& sums,
                 int* not_finite, cudaStream_t stream) {
  add_columns_kernel<<<blocks_for(k, kColumns), kColumns * kLanes, 0, stream>>>(x, m, k, sums,
                                                                                not_finite);
  device::cuda::check_launch("add_columns_kernel");
}

void weigh_rows(const float* x, const float* weights, std::int64_t m, std::int64_t k, float* y,
                cudaStream_t stream) {
  if (m > 0) {
    weigh_rows_kernel<<<blocks_for(m * k, kThreads), kThreads, 0, stream>>>(x, weights, m * k, k,
                                                                            y);
    device::cuda::check_launch("weigh_rows_kernel");
  }
}

}  // namespace nibble::compress::cuda
