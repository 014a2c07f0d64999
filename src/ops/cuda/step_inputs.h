#pragma once

#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

#include "device/cuda/event.h"
#include "device/cuda/memory.h"

namespace nibble::ops::cuda {

/// The whole numbers of a step (token ids, positions, rows) on their way to the device, at the same
/// addresses for the same sizes: a recorded step reads those of each launch.
class StepInputs {
 public:
  explicit StepInputs(std::int64_t capacity);

  /// Begins a new step, when the last one's numbers have been copied.
  void clear();
  /// A copy of `values` to hand to operators. Throws kFailed when the step is too large.
  std::span<const std::int32_t> put(std::span<const std::int32_t> values);
  /// Copies what was put to the device.
  void upload(cudaStream_t stream);

  /// Where numbers that put() returned stand on the device. Throws kFailed for others.
  const std::int32_t* on_device(std::span<const std::int32_t> values) const;

 private:
  std::int64_t capacity_;
  std::int64_t used_ = 0;
  device::cuda::PinnedBuffer host_;
  device::cuda::Buffer device_;
  device::cuda::Event copied_;
};

}  // namespace nibble::ops::cuda
