#pragma once

#include <cstdint>

#include "device/cuda/memory.h"
#include "ops/cuda/attention/attention.h"

namespace nibble::ops::cuda {

/// The base of a Hadamard matrix (formats/hadamard.h) on the device.
class HadamardSigns {
 public:
  /// Of Hadamard(size); nothing where there is none.
  explicit HadamardSigns(std::int64_t size);

  bool exists() const { return exists_; }
  HadamardView view() const { return {signs_.as<float>(), base_}; }

 private:
  bool exists_;
  std::int32_t base_ = 1;
  device::cuda::Buffer signs_;  // [base, base]; empty for base 1
};

}  // namespace nibble::ops::cuda
