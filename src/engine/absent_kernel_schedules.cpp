#include "device/cuda_devices.h"
#include "engine/kernel_schedules.h"

namespace nibble::engine {

// In the place of cuda_kernel_schedules.cpp where the back end is not built.
LoadedSchedules load_schedules(const ScheduleSource&) {
  return {};
}

KernelTuning tune_kernels(const models::Network&, std::span<const std::int64_t>,
                          const ScheduleSource&, core::ProgressSink&) {
  device::require_cuda_device();  // says why there is none
  return {};
}

}  // namespace nibble::engine
