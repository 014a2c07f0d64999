#pragma once

#include "compress/backend/cuda/cuda_context.h"
#include "compress/coding/coded_weight.h"
#include "compress/coding/cuda/coder.h"

namespace nibble::compress::cuda {

/// The coder of a scheme that has_gpu_coder_of_head() accepts on the device, with learned books as
/// `parameters` have them.
class DeviceCoder {
 public:
  DeviceCoder(const CudaContext& context, const formats::Scheme& scheme,
              const Parameters& parameters);
  const CoderView& view() const { return view_; }

 private:
  device::cuda::Buffer books_;
  device::cuda::Buffer tables_;
  CoderView view_;
};

/// [n, groups of a row] as kernels read them.
device::cuda::Buffer device_groups(const CudaContext& context, const Parameters& parameters);

}  // namespace nibble::compress::cuda
