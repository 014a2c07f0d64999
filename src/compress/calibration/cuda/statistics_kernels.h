#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

/// Kernels of the statistics of inputs. All pointers are of the device.
namespace nibble::compress::cuda {

/// Of the columns of all rows so far, [k] each; see InputStatistics.
struct ColumnSums {
  float* largest = nullptr;
  double* magnitude = nullptr;
  double* squares = nullptr;
};

/// Adds the rows of x [m, k], in a fixed order. *not_finite becomes 1 when x holds NaN or infinite
/// values.
void add_columns(const float* x, std::int64_t m, std::int64_t k, const ColumnSums& sums,
                 int* not_finite, cudaStream_t stream);

/// y = x with row i times weights[i]; x and y [m, k].
void weigh_rows(const float* x, const float* weights, std::int64_t m, std::int64_t k, float* y,
                cudaStream_t stream);

}  // namespace nibble::compress::cuda
