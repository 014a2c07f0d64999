#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/elementwise/matrix_view.h"

/// Single values of matrices of either type (matrix_view.h), for operators that take them one by
/// one.
namespace nibble::ops::cuda {

/// float32 as it is.
struct FloatValues {
  float* data;
  __device__ float read(std::int64_t at) const { return data[at]; }
  __device__ void write(std::int64_t at, float value) const { data[at] = value; }
};

/// float16: written with saturation; reading one at the end of the range says so.
struct HalfValues {
  __half* data;
  std::int32_t* saturated;
  __device__ float read(std::int64_t at) const {
    const __half value = data[at];
    if (saturated != nullptr && has_saturated(__half_as_ushort(value), 0)) {
      *saturated = 1;
    }
    return __half2float(value);
  }
  __device__ void write(std::int64_t at, float value) const {
    data[at] = __float2half_rn(cuda::saturated(value));
  }
};

/// body(its values) for a matrix of either type.
template <typename Body>
void with_values(const MutableMatrixView& x, const Body& body) {
  if (x.half) {
    body(HalfValues{static_cast<__half*>(x.data), x.saturated});
  } else {
    body(FloatValues{static_cast<float*>(x.data)});
  }
}

/// The same of one that is only read.
template <typename Body>
void with_values(const MatrixView& x, const Body& body) {
  if (x.half) {
    body(HalfValues{static_cast<__half*>(const_cast<void*>(x.data)), x.saturated});
  } else {
    body(FloatValues{static_cast<float*>(const_cast<void*>(x.data))});
  }
}

}  // namespace nibble::ops::cuda
