#pragma once

#include <cuda_runtime_api.h>

#include "core/dtype.h"
#include "device/cuda/memory.h"
#include "tune/cuda/device_adamw.h"
#include "tune/cuda/weight_kernels.h"
#include "tune/tuned_layer.h"

namespace nibble::tune::cuda {

/// A TunedLayer on the GPU, beside that of the host: with trained weights, or of
/// Trained::kScalesAlone or kCodesAlone.
class DeviceLayer {
 public:
  /// The parameters are those of `optimizer`, which must outlive this. The layer's values have
  /// `type`: F32 or BF16.
  DeviceLayer(const TunedLayer& layer, const DeviceAdamW& optimizer, core::DType type,
              cudaStream_t stream);

  /// [n, k], which a forward pass reads: those that the packed layer has.
  const void* values() const { return values_.data(); }

  /// With trained weights: where the gradient of the values goes.
  std::span<float> gradient() const;
  /// Passes that gradient on to weights, scales and zeros.
  void pass_back();

  /// Else: adds to the gradients of scales, zeros and codes that are trained what `gradient` [n,
  /// k], that of the values, gives.
  void add_scale_gradients(const float* gradient);

  /// The values afresh from the parameters.
  void update();

 private:
  core::DType type_;
  cudaStream_t stream_;
  device::cuda::Buffer signs_;
  device::cuda::Buffer start_zeros_;
  device::cuda::Buffer codes_;  // where they stay
  device::cuda::Buffer values_;
  DeviceWeight weight_;
  DeviceSlope slope_;
};

}  // namespace nibble::tune::cuda
