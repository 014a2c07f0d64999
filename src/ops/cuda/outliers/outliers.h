#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/packed/unit_format.h"

/// The activations that LLM.int8() (arXiv 2208.07339, section 3.2) leaves out of the integers.
namespace nibble::ops::cuda {

/// Those of m tokens, in the order of their columns. All on the device.
struct OutlierLists {
  std::int32_t* columns = nullptr;  // [m, k]
  float* values = nullptr;          // [m, k]
  std::int32_t* counts = nullptr;   // [m]
};

/// Finite values of x [m, k] of at least kOutlierThreshold.
void find_outliers(const float* x, std::int64_t m, std::int64_t k, const OutlierLists& lists,
                   cudaStream_t stream);

/// y += outliers W^T in float32, y [m, n] with rows ldy apart. W is what the units hold.
void add_outliers(const UnitsView& weight, const OutlierLists& lists, std::int64_t m, float* y,
                  std::int64_t ldy, cudaStream_t stream);

}  // namespace nibble::ops::cuda
