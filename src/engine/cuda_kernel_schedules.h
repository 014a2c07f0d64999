#pragma once

#include "device/cuda_devices.h"
#include "engine/kernel_schedules.h"
#include "ops/cuda/schedules/schedules.h"

namespace nibble::engine {

/// load_schedules() for a device that has these kernels.
LoadedSchedules load_schedules(const ScheduleSource& source, const device::CudaDevice& device,
                               const ops::cuda::KernelLists& kernels);

}  // namespace nibble::engine
