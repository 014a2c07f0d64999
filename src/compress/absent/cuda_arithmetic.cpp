#include "compress/arithmetic.h"
#include "core/error.h"
#include "device/cuda_devices.h"

namespace nibble::compress {

std::unique_ptr<Arithmetic> make_cuda_arithmetic(int gpu, core::ThreadPool&) {
  (void)device::require_cuda_device(gpu);  // says that there is none
  core::fail(core::ErrorKind::kFailed, "this build cannot compress on a GPU");
}

}  // namespace nibble::compress
