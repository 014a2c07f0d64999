#include "core/error.h"
#include "device/cuda_devices.h"
#include "tune/qat/student_trainer.h"
#include "tune/tuning_device.h"

namespace nibble::tune::cuda {

std::unique_ptr<TuningDevice> make_cuda_tuning_device(int gpu, ops::gradient::ProductPrecision,
                                                      ops::cpu::CpuOps&) {
  (void)device::require_cuda_device(gpu);  // says that there is none
  core::fail(core::ErrorKind::kFailed, "this build cannot train on a GPU");
}

std::unique_ptr<StudentTrainer> make_cuda_student_trainer(const StudentTask&, int gpu,
                                                          ops::gradient::ProductPrecision) {
  (void)device::require_cuda_device(gpu);
  core::fail(core::ErrorKind::kFailed, "this build cannot train on a GPU");
}

}  // namespace nibble::tune::cuda
