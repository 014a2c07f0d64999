#include "device/cuda_devices.h"

#include "core/error.h"

namespace nibble::device {

bool cuda_is_built() {
  return false;
}

int cuda_device_count() {
  return 0;
}

std::vector<CudaDevice> cuda_devices() {
  return {};
}

CudaDevice require_cuda_device(int) {
  core::fail(core::ErrorKind::kUsage,
             "this build has no CUDA back end; build it where a CUDA toolkit is installed, or use "
             "--device cpu");
}

CudaDevice current_cuda_device() {
  return require_cuda_device(0);
}

}  // namespace nibble::device
