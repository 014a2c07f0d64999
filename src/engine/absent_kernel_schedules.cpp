#include "device/cuda_devices.h"
#include "engine/kernel_schedules.h"

namespace nibble::engine {

// In the place of cuda_kernel_schedules.cpp where the back end is not built.
LoadedSchedules load_schedules(const ScheduleSource&, int) {
  return {};
}

KernelTuning tune_kernels(const models::Network&, std::span<const std::int64_t>,
                          const ScheduleSource&, int gpu, core::ProgressSink&) {
  device::require_cuda_device(gpu);  // says why there is none
  return {};
}

}  // namespace nibble::engine
