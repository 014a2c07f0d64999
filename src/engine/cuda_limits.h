#pragma once

#include "device/cuda_devices.h"
#include "engine/runner.h"

namespace nibble::engine {

/// What a GPU, which is the current one, can do at the most; takes less than a second.
DeviceLimits measure_cuda_limits(const device::CudaDevice& device);

}  // namespace nibble::engine
