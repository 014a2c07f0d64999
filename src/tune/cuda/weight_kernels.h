#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "compress/coding/cuda/coder.h"
#include "core/dtype.h"
#include "tune/adamw_step.h"

/// Kernels of trained weights. All pointers are of the device. Nothing waits or allocates, and sums
/// have a fixed order.
namespace nibble::tune::cuda {

/// A layer's trained numbers (TrainedWeight), and how they are rounded. Groups of a row have
/// `group` weights, the last one what is left.
struct DeviceWeight {
  compress::cuda::CoderView coder;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t groups = 0;  // of a row
  std::int64_t group = 0;
  bool floats = false;                 // rounded to float16, without scales; weights are trained
  const std::int8_t* signs = nullptr;  // [n, groups] of scales; 0: the group is pruned
  const std::int32_t* start_zeros = nullptr;  // [n, groups], where zeros are not trained
  const float* weights = nullptr;             // [n, k], where they are trained
  const std::uint8_t* codes = nullptr;        // [n, k], where they stay
  const float* places = nullptr;              // [n, k] of codes, where these are trained
  const float* logarithms = nullptr;          // [n, groups]; null for floats
  const float* zeros = nullptr;               // [n, groups] or null
};

/// Gradients at the same numbers.
struct DeviceSlope {
  float* weights = nullptr;
  float* places = nullptr;
  float* logarithms = nullptr;
  float* zeros = nullptr;  // null where zeros are not trained
};

/// As tune::fake_quantize(), or of codes: `values` [n, k] of F32 or BF16, bit for bit but
/// for the last step from float32 to bfloat16.
void fake_quantize(const DeviceWeight& weight, void* values, core::DType type, cudaStream_t stream);

/// As tune::fake_quantize_back(), with sums in another order.
void fake_quantize_back(const DeviceWeight& weight, const DeviceSlope& slope, cudaStream_t stream);

/// Of codes: adds to the gradients at logarithms and zeros, and at the places of codes that are
/// trained (TunedLayer::pass_back), what `gradient` [n, k], that at the values, gives.
void add_scale_gradients(const DeviceWeight& weight, const float* gradient,
                         const DeviceSlope& slope, cudaStream_t stream);

/// Partial sums of a number of values, to be added up in their order.
inline constexpr int kPartialSums = 512;

/// sums [kPartialSums] of the squares of x.
void squares(const float* x, std::int64_t count, double* sums, cudaStream_t stream);

/// y becomes factor (y - target); sums [kPartialSums] of the squares of y - target.
void square_loss(float* y, const float* target, std::int64_t count, float factor, double* sums,
                 cudaStream_t stream);

/// Numbers with their gradient, which a step empties, and the moments.
struct DeviceMoments {
  float* values = nullptr;
  float* gradient = nullptr;
  float* first = nullptr;
  float* second = nullptr;
};
void adamw_step(const AdamWStep& step, const DeviceMoments& numbers, std::int64_t count,
                cudaStream_t stream);

}  // namespace nibble::tune::cuda
