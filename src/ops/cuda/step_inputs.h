#pragma once

#include <cstdint>
#include <span>

#include "device/cuda/memory.h"
#include "ops/cuda/step_upload.h"

namespace nibble::ops::cuda {

/// The whole numbers of a step (token ids, positions, rows) on their way to the device, at the same
/// addresses for the same sizes: a recorded step reads those of each launch.
class StepInputs {
 public:
  explicit StepInputs(std::int64_t capacity);

  /// Begins a new step: the last one's numbers have been uploaded.
  void clear() { used_ = 0; }
  /// A copy of `values` to hand to operators. Throws kFailed when the step is too large.
  std::span<const std::int32_t> put(std::span<const std::int32_t> values);
  /// What was put goes to the device with `upload`.
  void add_to(StepUpload& upload) const;

  /// Where numbers that put() returned stand on the device. Throws kFailed for others.
  std::int32_t* on_device(std::span<const std::int32_t> values) const;

 private:
  std::int64_t capacity_;
  std::int64_t used_ = 0;
  device::cuda::PinnedBuffer host_;
  device::cuda::Buffer device_;
};

}  // namespace nibble::ops::cuda
