#include "core/error.h"
#include "device/cuda_devices.h"
#include "tune/tuning_device.h"

namespace nibble::tune::cuda {

std::unique_ptr<TuningDevice> make_cuda_tuning_device(int gpu, ops::gradient::ProductPrecision,
                                                      ops::cpu::CpuOps&) {
  (void)device::require_cuda_device(gpu);  // says that there is none
  core::fail(core::ErrorKind::kFailed, "this build cannot train on a GPU");
}

}  // namespace nibble::tune::cuda
