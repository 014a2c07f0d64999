#pragma once

#include <cstdint>

#include "device/cuda/memory.h"

namespace nibble::ops::cuda {

/// Says that some float16 on the device was at the end of its range or beyond
/// (elementwise/matrix_view.h). It lies in memory of the host that kernels write to when that
/// happens, and else costs nothing: no step clears it, none copies it.
class RangeFlag {
 public:
  RangeFlag();

  /// For kernels to write 1 to.
  std::int32_t* on_device() const { return memory_.as<std::int32_t>(); }
  /// Whether it was raised; lowers it. Kernels that may raise it must have ended.
  bool take();

 private:
  device::cuda::PinnedBuffer memory_;
};

}  // namespace nibble::ops::cuda
