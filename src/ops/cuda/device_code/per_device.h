#pragma once

#include <map>
#include <mutex>

#include <cuda_runtime_api.h>

#include "device/cuda/check.h"

namespace nibble::ops::cuda {

/// What `ask()` says while a device is the current one; asked once for each device. Each function
/// object is of a type of its own, and so is what is remembered of it.
template <typename Ask>
auto of_current_device(const Ask& ask) {
  static std::mutex mutex;
  static std::map<int, decltype(ask())> known;
  int device = 0;
  device::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  const auto at = known.find(device);
  return at != known.end() ? at->second : known.emplace(device, ask()).first->second;
}

}  // namespace nibble::ops::cuda
