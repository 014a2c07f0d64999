#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

/// Inputs of layers that round them to integers. All pointers are of the device; matrices are
/// float32, row-major. Nothing waits or allocates.
namespace nibble::ops::gradient::cuda {

/// InputRounding (rounded_input.h) to integers.
struct IntegerRounding {
  int bits = 8;
  bool symmetric = true;
  bool keeps_outliers = false;
  float clip = 1.0f;
  float scale = 0.0f;      // 0: taken from the inputs
  std::int64_t group = 0;  // inputs that share a scale; 0: all

  /// Whether values that lie far out are cut.
  bool cuts() const { return clip != 1.0f || scale != 0.0f; }
};

/// y [m, columns]: as gradient::rounded_input(), bit for bit.
void round_input(const IntegerRounding& rounding, const float* x, std::int64_t m,
                 std::int64_t columns, float* y, cudaStream_t stream);

/// As gradient::cut_gradient().
void cut_gradient(const IntegerRounding& rounding, const float* x, std::int64_t m,
                  std::int64_t columns, float* gradient, cudaStream_t stream);

}  // namespace nibble::ops::gradient::cuda
